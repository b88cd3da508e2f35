// Executors of a user's own: they run calls one by one, each by a function over real tensors.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/executor.h"

namespace fulgurite {

// Runs one call: one tensor per tensor argument of the call comes in, in order, None left out and
// with repeats; one per result goes out. May be called from several threads at once, without
// Python's lock. What it throws becomes a UserError that names the executor and the call.
using CallFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

struct OperatorRules {
  std::function<Refusal(const Trace&, const Call&)> claims;
  std::function<CallFunction(const Trace&, const Call&)> lower;
  // Whether what the functions compute is seen by autograd, so that gradients can be asked for.
  bool differentiable = false;
};

// Each call that it takes is a region by itself. It is not asked for calls that write to tensors,
// give views of them, or need gradients that nobody would have. What a function returns is held
// against the types of the trace; UserError for another shape, dtype, device or strides, for memory
// of an argument, and for an argument that was written to. Results whose memory is known elsewhere
// are copied.
Executor operator_executor(std::string name, OperatorRules rules);

}  // namespace fulgurite
