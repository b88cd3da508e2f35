// A region as machine code, with the layouts that it was made for.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "codegen/jit/compile.h"
#include "codegen/loops/bind.h"
#include "codegen/loops/loop_program.h"
#include "executors/fused_cpu/region_memory.h"
#include "executors/fused_cpu/replaced_kernel.h"
#include "ir/executor.h"

namespace fulgurite {

struct RegionKernel {
  LoopProgram program;
  std::string symbol, text;
  KernelPointer kernel;             // as printed
  mutable ReplacedKernel replaced;  // by a user
  std::vector<TensorType> inputs, outputs;
  BoundLoops layout;             // without pointers
  int64_t bytes = 0;             // that a run reads and writes
  KernelPointer draws;           // makes random words; null where none are drawn
  bool draws_in_blocks = false;  // a few places at a time
  WrittenOver written_over;

  const Kernel& used() const {
    const Kernel* other = replaced.get();
    return other ? *other : *kernel;
  }
};
using RegionKernelPointer = std::shared_ptr<const RegionKernel>;

// Compiles the loop programs of regions, equal texts once, and on all cores; null where there is no
// compiler. Throws InternalError for calls that do not make a loop program.
std::vector<RegionKernelPointer> region_kernels(const Trace& trace,
                                                std::span<const Call* const> regions);

// See RegionCode.
bool run(const RegionKernel& kernel, RegionInputs inputs, RegionTargets targets,
         RegionResults& results);
void replace_text(const RegionKernel& kernel, const std::string& text);
std::string used_text(const RegionKernel& kernel);
double time(const RegionKernel& kernel, TensorList inputs, double seconds);

}  // namespace fulgurite
