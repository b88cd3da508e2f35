// A kernel run over all of its places, on threads.
#pragma once

#include "executors/fused_cpu/region_kernel.h"
#include "torch/cpu_generator.h"

namespace fulgurite {

// Whether all checks hold. `data`: the first element of each input that is no drawn one, then of
// each output. What is drawn comes from `state`, which is null where nothing is.
bool run_kernel(const RegionKernel& region, const Kernel& code, c10::ArrayRef<void*> data,
                TwisterState* state);

// Whether words may be drawn a few places at a time: there is one drawn input, and it is read from
// its first element to its last.
bool draws_in_blocks(const LoopProgram& program);

}  // namespace fulgurite
