// The executor that multiplies by packed weights.
#pragma once

#include "ir/executor.h"

namespace fulgurite {

// Claims products of several rows with a matrix that the program has as a parameter, a buffer or a
// constant, where oneDNN is faster by a packed one (docs/matmul.md has the rule). Each is a region
// of its own.
Executor onednn_executor();

}  // namespace fulgurite
