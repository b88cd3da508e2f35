// A torch.autograd.Function whose two halves are programs on tensors: a node of autograd, made anew
// by each call.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/stack.h>

namespace fulgurite {

using TensorProgram = std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)>;

// What the backward needs of the forward.
struct Held {
  int result = -1;    // of the call, which autograd knows by then
  bool saved = true;  // as save_for_backward does: an error once it is written, freed when used
};

struct CustomFunction {
  struct Case {
    std::vector<bool> given;  // by result
    std::vector<int> used;    // the results whose gradients come in, before what is held
    TensorProgram program;    // the gradients of the inputs come out
  };

  std::string name;
  size_t inputs = 0;  // that are differentiable
  size_t results = 0;
  TensorProgram forward;  // all arguments in; the results come out, then what is held
  std::vector<Held> held;
  std::vector<int> dirty;               // arguments
  std::vector<int> non_differentiable;  // results
  bool zeros_for_none = true;
  std::vector<Case> cases;
};

// Replaces the arguments on the stack, all tensors, by the results. Under grad mode they are
// differentiated by the captured backward: once, as torch's once_differentiable has it.
void call_custom(const std::shared_ptr<const CustomFunction>& function, torch::jit::Stack& stack);

}  // namespace fulgurite
