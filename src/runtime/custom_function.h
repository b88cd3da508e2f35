// A torch.autograd.Function that was captured: a node of autograd, made anew by each call.
#pragma once

#include <memory>

#include <ATen/core/stack.h>

#include "runtime/instruction.h"

namespace fulgurite {

// What the backward needs of the forward.
struct Held {
  int result = -1;    // of the call, which autograd knows by then
  bool saved = true;  // as save_for_backward does: an error once it is written, freed when used
};

struct CustomFunction {
  struct Case {
    std::vector<bool> given;  // by result
    std::vector<int> used;    // the results whose gradients come in, before what is held
    Lowered program;          // the gradients of the inputs come out
  };

  std::string name;
  size_t inputs = 0;  // that are differentiable
  size_t results = 0;
  Lowered forward;  // all arguments in; the results come out, then what is held
  std::vector<Held> held;
  std::vector<int> dirty;               // arguments
  std::vector<int> non_differentiable;  // results
  bool zeros_for_none = true;
  std::vector<Case> cases;
};

// From a call that has a gradient.
std::shared_ptr<const CustomFunction> custom_function(const Trace& trace, const Call& call);

// Replaces the arguments on the stack, all tensors, by the results. Under grad mode they are
// differentiated by the captured backward: once, as torch's once_differentiable has it.
void call_custom(const std::shared_ptr<const CustomFunction>& function, torch::jit::Stack& stack);

}  // namespace fulgurite
