// Where the results of a region may lie.
#pragma once

#include <vector>

#include "codegen/loops/loop_program.h"
#include "ir/trace.h"

namespace fulgurite {

// Of each output: inputs that are read at the very places where it is written, and so may be
// written over. They have its layout, or other sizes and strides that fill the same memory.
using WrittenOver = std::vector<c10::SmallVector<int32_t, 2>>;
WrittenOver written_over(const LoopProgram& program, const std::vector<TensorType>& inputs,
                         const std::vector<TensorType>& outputs);

// What is to be known of a placed region, without its code.
struct MemoryOfKernel {
  std::vector<std::vector<ValueId>> over;  // `written_over`, as values
  int64_t scratch = 0;                     // bytes of the words that it draws, if all at once
  bool checks_elements = false;            // may decline for the values of its inputs
};

// Throws InternalError for calls that do not make a loop program.
MemoryOfKernel memory_of_kernel(const Trace& trace, const Call& region);

}  // namespace fulgurite
