// Words of the generator, many at once.
#pragma once

#include "codegen/jit/compile.h"
#include "torch/cpu_generator.h"

namespace fulgurite {

// Writes the next `count` words to `words`, and advances the state.
using DrawFunction = void (*)(uint32_t* state, int64_t* used, uint32_t* words, int64_t count);

// Compiled once in a process; null where there is no compiler.
KernelPointer draw_kernel();

inline void draw(const Kernel& kernel, TwisterState& state, uint32_t* words, int64_t count) {
  kernel.function<std::remove_pointer_t<DrawFunction>>()(state.words.data(), &state.used, words,
                                                         count);
}

}  // namespace fulgurite
