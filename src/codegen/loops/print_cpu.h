// A loop program as C++ text for the CPU: vectors of a fixed width, no headers, compiled by clang
// with -O2 -ffp-contract=off and never with fast-math.
#pragma once

#include <string>
#include <string_view>

#include "codegen/loops/loop_program.h"

namespace fulgurite {

// The text of `extern "C" void NAME(const KernelArgs*, int64_t begin, int64_t end)`. It holds no
// sizes and no strides other than 0 and 1 of the innermost dimension, and 1 of the next to it where
// that is read across: programs that differ only in
// those have one text. `vector_bytes`: 64 for AVX-512, 32 for AVX2 with FMA and F16C.
std::string print_cpu(const LoopProgram& program, std::string_view name, int vector_bytes);

}  // namespace fulgurite
