// A trace run again: on real tensors, or on trace tensors, which makes a new trace.
#pragma once

#include <functional>
#include <span>
#include <string>

#include <ATen/ATen.h>

#include "ir/trace.h"

namespace fulgurite {

// Runs every call boxed, under its grad mode, on `inputs` (one per Trace::inputs); the outputs.
std::vector<at::Tensor> replay(const Trace& trace, const std::vector<at::Tensor>& inputs);

// What runs of a trace, and who watches it.
struct Running {
  bool bodies = false;  // the parts of every call that has any, in place of the call
  std::function<void(const Call&, const std::vector<at::Tensor>& env)> after;
};

// Runs `calls` in order; `env` holds a tensor per value of their trace.
void run_calls(std::span<const Call> calls, std::vector<at::Tensor>& env,
               const Running& running = {});

// Runs the trace on `inputs` and compares every value with its type: dtype, device, sizes, strides
// (of dimensions that have a next element), offset, lazy bits, and which values share memory. The
// first difference, "" where there is none.
std::string check_types(const Trace& trace, const std::vector<at::Tensor>& inputs,
                        bool bodies = false);

// Pushes the arguments of `call` for a boxed call, with tensors from `env`.
void push_args(const Call& call, const std::vector<at::Tensor>& env, torch::jit::Stack& stack);

// Takes the results of `call` from the stack into `env`.
void pop_results(const Call& call, torch::jit::Stack& stack, std::vector<at::Tensor>& env);

}  // namespace fulgurite
