#include "torch/plain_scripts.h"

#include <torch/csrc/jit/runtime/graph_executor.h>

namespace fulgurite {

PlainScripts::PlainScripts() : before_(torch::jit::getGraphExecutorOptimize()) {
  torch::jit::setGraphExecutorOptimize(false);
}

PlainScripts::~PlainScripts() { torch::jit::setGraphExecutorOptimize(before_); }

}  // namespace fulgurite
