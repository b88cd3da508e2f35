// Registration of capture's boxed fallbacks.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>

namespace fulgurite {

// Registers a fallback for kAbove, kMark and kBelow, for the life of the process; unless one of the
// keys has a fallback already (a later torch, another library with the same idea): then none is.
void register_fallbacks(c10::BoxedKernel above, c10::BoxedKernel mark, c10::BoxedKernel below);

// Throws UserError, naming the key, where the fallbacks could not be registered.
void require_capture_keys();

}  // namespace fulgurite
