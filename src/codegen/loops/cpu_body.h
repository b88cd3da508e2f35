// The statements of a loop program as C++.
#pragma once

#include <string>
#include <vector>

#include "codegen/loops/loop_program.h"
#include "codegen/loops/prelude/prelude.h"

namespace fulgurite {

class CpuBody {
 public:
  CpuBody(const LoopProgram& program, Prelude& prelude);

  // Those that are the same at every place of a row, for before the loop; and the others.
  std::string uniform_statements();
  std::string statements();

  // A statement as it goes into memory of a dtype.
  std::string in_memory_type(int32_t statement, c10::ScalarType dtype);

  int32_t rank() const { return program_.rank(); }
  bool gathers(int32_t load) const { return gathered_[load]; }
  bool any_gather() const;
  // Loop dimensions but the innermost whose index is used.
  const std::vector<int32_t>& outer_indices() const { return outer_indices_; }
  // Takes longer than its memory traffic.
  bool is_costly() const { return costly_; }

 private:
  std::string line(int32_t i);
  std::string value(const ScalarNode& node);
  std::string load(const ScalarNode& node);
  std::string index(const ScalarNode& node);
  std::string literal(const ScalarNode& node);
  std::string infix(const ScalarNode& node);
  std::string comparison(const ScalarNode& node);
  std::string function(const ScalarNode& node);
  std::string arg(const ScalarNode& node, int i) const;

  const LoopProgram& program_;
  Prelude& prelude_;
  std::vector<bool> uniform_, gathered_;
  std::vector<int32_t> outer_indices_;
  bool costly_ = false;
};

}  // namespace fulgurite
