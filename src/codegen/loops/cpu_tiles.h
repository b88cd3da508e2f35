// Reads across the lanes, by tiles: as many rows at once as a vector has lanes.
#pragma once

#include <string>

#include "codegen/loops/cpu_access.h"
#include "codegen/loops/cpu_body.h"
#include "codegen/loops/cpu_types.h"

namespace fulgurite {

// Of pointwise programs that read a tensor with neighbours in the next to innermost dimension side
// by side: "transposed". A square of it is turned in registers, into memory that is in the caches.
class CpuTiles {
 public:
  CpuTiles(const LoopProgram& program, const CpuAccesses& at, const CpuVectors& vectors,
           Prelude& prelude, CpuBody& body)
      : program_(program), at_(at), vectors_(vectors), prelude_(prelude), body_(body) {}

  bool any() const;
  // The function `band`: L rows of n places each; what is over at their ends goes to `row`.
  std::string band();
  // Where an entry is at the beginning of L whole rows: calls it, and goes on there. `pointers`: at
  // the row; `advance`: after i of the next to innermost dimension has reached its end.
  std::string call(const std::string& pointers, const std::string& advance) const;

 private:
  int32_t across() const { return program_.rank() - 2; }
  bool is_transposed(size_t i) const {
    return !at_.is_store(i) && at_.is_strided(i) && at_[i].strides[across()] == 1;
  }
  bool turns_in_registers(size_t i) const;
  int32_t only_turned() const;
  std::string tiles();
  std::string rest() const;

  const LoopProgram& program_;
  const CpuAccesses& at_;
  const CpuVectors& vectors_;
  Prelude& prelude_;
  CpuBody& body_;
};

}  // namespace fulgurite
