// How the accesses of a program are spelled: x0, x1, ... are read, y0, y1, ... written.
#pragma once

#include <string>
#include <string_view>

#include "codegen/loops/loop_program.h"

namespace fulgurite {

class CpuAccesses {
 public:
  explicit CpuAccesses(const LoopProgram& program) : program_(program) {}

  size_t count() const { return program_.loads.size() + program_.stores.size(); }
  size_t first_store() const { return program_.loads.size(); }
  bool is_store(size_t i) const { return i >= first_store(); }
  const Access& operator[](size_t i) const {
    return is_store(i) ? program_.stores[i - first_store()].access : program_.loads[i];
  }
  // Of the dimension along the lanes.
  int64_t stride(size_t i) const { return (*this)[i].strides[program_.lane_dimension()]; }
  bool is_strided(size_t i) const { return stride(i) != 0 && stride(i) != 1; }

  std::string pointer(size_t i) const;
  std::string pointer_type(size_t i) const;
  // "strides[7]": of an access along a loop dimension.
  std::string stride_text(size_t i, int32_t dimension) const;
  // Of a function that goes along the lanes, with a comma behind each: "const float* x0, long s0,
  // ".
  std::string parameters() const;
  // The same of loads alone, with something before the names; and what is given for them.
  std::string parameters_of_loads(std::string_view before = "") const;
  std::string arguments_of_loads(std::string_view before = "") const;
  // Declares the pointers, and the strides of strided accesses, from `args`.
  std::string from_arguments() const;

 private:
  const LoopProgram& program_;
};

}  // namespace fulgurite
