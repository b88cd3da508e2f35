// About how long the tensors of a program take through memory, by our kernels and by ATen's, in
// nanoseconds of one core.
#pragma once

#include "codegen/loops/loop_program.h"

namespace fulgurite {

// Each element once, those next to each other together. What is far from the core we write past
// the caches, which ATen does not.
double memory_nanoseconds(const LoopProgram& program);
double aten_memory_nanoseconds(const LoopProgram& program);

// Of getting the memory of large results from the system, each page when it is first written.
double fresh_memory_nanoseconds(const LoopProgram& program);

// Besides, for accesses whose neighbours along the lanes are lines of memory apart.
double strides_nanoseconds(const LoopProgram& program);
double aten_strides_nanoseconds(const LoopProgram& program);

}  // namespace fulgurite
