// Which statements have values that a narrow float holds as they are: those need no rounding.
#pragma once

#include <vector>

#include "codegen/loops/loop_program.h"

namespace fulgurite {

// Of one program, while statements are added to it.
class Precision {
 public:
  // Whether rounding a statement to `narrow` (f16 or bf16) changes none of its values.
  bool fits(const LoopProgram& program, int32_t statement, c10::ScalarType narrow);

 private:
  struct Fits {
    bool f16 = false, bf16 = false;
  };
  Fits look(const LoopProgram& program, const ScalarNode& node) const;

  std::vector<Fits> known_;  // by statement
};

}  // namespace fulgurite
