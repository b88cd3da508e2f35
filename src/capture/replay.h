// A trace run again: on real tensors, or on trace tensors, which makes a new trace.
#pragma once

#include <ATen/ATen.h>

#include "ir/trace.h"

namespace fulgurite {

// Runs every call boxed, under its grad mode, on `inputs` (one per Trace::inputs); the outputs.
std::vector<at::Tensor> replay(const Trace& trace, const std::vector<at::Tensor>& inputs);

// Pushes the arguments of `call` for a boxed call, with tensors from `env`.
void push_args(const Call& call, const std::vector<at::Tensor>& env, torch::jit::Stack& stack);

// Takes the results of `call` from the stack into `env`.
void pop_results(const Call& call, torch::jit::Stack& stack, std::vector<at::Tensor>& env);

}  // namespace fulgurite
