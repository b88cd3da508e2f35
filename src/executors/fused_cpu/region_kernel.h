// A region as machine code, with the layouts that it was made for.
#pragma once

#include <memory>
#include <vector>

#include <ATen/ATen.h>

#include "codegen/jit/compile.h"
#include "codegen/loops/bind.h"
#include "codegen/loops/loop_program.h"
#include "ir/executor.h"

namespace fulgurite {

struct RegionKernel {
  LoopProgram program;
  KernelPointer kernel;
  std::vector<TensorType> inputs, outputs;
  BoundLoops layout;  // without pointers
  int64_t bytes = 0;  // that a run reads and writes
};

// Compiles the region's loop program; null where there is no compiler. Throws InternalError for
// calls that do not make a loop program.
std::shared_ptr<const RegionKernel> region_kernel(const Trace& trace, const Call& region);

// See RegionCode.
bool run(const RegionKernel& kernel, TensorList inputs, std::vector<at::Tensor>& results);
double time(const RegionKernel& kernel, TensorList inputs, double seconds);

}  // namespace fulgurite
