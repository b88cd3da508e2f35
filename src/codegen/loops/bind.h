// A loop program with the memory of its tensors, ready to run.
#pragma once

#include <vector>

#include "codegen/loops/kernel_args.h"
#include "codegen/loops/loop_program.h"

namespace fulgurite {

using Pointers = c10::SmallVector<void*, 16>;  // one per access

// Holds what `args` points to; the memory of the tensors stays the caller's.
struct BoundLoops {
  Pointers pointers;
  std::vector<int64_t> strides;
  Dims sizes;
  int64_t places = 0;
  int64_t grain = 1;  // chunks begin at multiples of it
  int64_t streaming = 0;
  std::vector<int64_t> given;

  // `failed` is 0, and stays valid as long as the kernel runs.
  KernelArgs args(int64_t* failed) const {
    return {pointers.data(), sizes.data(), strides.data(), streaming, given.data(), failed};
  }
};

// All but the pointers: the same for all tensors. What is written is kept out of the caches where
// the kernel moves more than `cache_bytes`.
BoundLoops layout_of(const LoopProgram& program, int64_t cache_bytes);

// `data`: the first element of each input and output (of the tensor, not of its
// storage).
Pointers pointers_of(const LoopProgram& program, c10::ArrayRef<void*> data);

BoundLoops bind(const LoopProgram& program, c10::ArrayRef<void*> data, int64_t cache_bytes);

}  // namespace fulgurite
