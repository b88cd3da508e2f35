#include "torch/custom_function.h"

#include <mutex>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "base/error.h"

namespace fulgurite {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using torch::autograd::VariableInfo;

// Whoever differentiates the results, with respect to whatever they come from, gets an error.
void forbid_twice(variable_list& results, const variable_list& inputs) {
  const auto error = c10::make_intrusive<torch::autograd::Error>(
      "trying to differentiate twice a function that was marked with @once_differentiable",
      torch::autograd::collect_next_edges(inputs));
  for (at::Tensor& result : results) {
    if (!result.defined() || !torch::autograd::isDifferentiableType(result.scalar_type())) continue;
    result = result.detach();
    torch::autograd::set_history(result, error);
  }
}

class Node final : public torch::autograd::Node {
 public:
  explicit Node(std::shared_ptr<const CustomFunction> function) : function_(std::move(function)) {}

  std::string name() const override { return function_->name + "Backward"; }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    at::OptionalDeviceGuard guard;
    if (function_->zeros_for_none)
      for (size_t i = 0; i < gradients.size(); ++i)
        if (!gradients[i].defined()) gradients[i] = results_[i].zeros(guard);
    const CustomFunction::Case& one = case_for(gradients);
    variable_list inputs;
    for (int result : one.used) inputs.push_back(gradients[result]);
    for (const auto& [saved, kept] : held_)
      inputs.push_back(kept.defined() ? kept : saved.unpack(getptr()));
    // The history of what comes in, were it differentiated again.
    const variable_list history = at::GradMode::is_enabled() ? inputs : variable_list();
    variable_list results;
    {
      at::AutoGradMode off(false);
      results = one.program(std::move(inputs));
    }
    if (torch::autograd::any_variable_requires_grad(history)) forbid_twice(results, history);
    return results;
  }

  void release_variables() override {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < held_.size(); ++i)
      if (function_->held[i].saved) held_[i].saved.reset_data();
  }

  void note_results(const std::vector<std::optional<at::Tensor>>& results) {
    for (const auto& result : results) results_.emplace_back(*result);
  }

  void hold(const at::Tensor& tensor, const Held& how) {
    const bool is_result = tensor.grad_fn().get() == this;
    if (how.saved || is_result)
      held_.push_back({SavedVariable(tensor, is_result), {}});
    else
      held_.push_back({{}, tensor});
  }

 private:
  const CustomFunction::Case& case_for(const variable_list& gradients) const {
    for (const CustomFunction::Case& one : function_->cases) {
      bool fits = true;
      for (size_t i = 0; i < gradients.size(); ++i) fits &= one.given[i] == gradients[i].defined();
      if (fits) return one;
    }
    throw Unsupported(fmt::format(
        "the backward of {} was called with gradients that are None where its capture had none; "
        "use fallback=\"eager\", or leave out set_materialize_grads(False)",
        function_->name));
  }

  struct Value {
    SavedVariable saved;
    at::Tensor kept;
  };

  const std::shared_ptr<const CustomFunction> function_;
  std::vector<VariableInfo> results_;
  std::vector<Value> held_;
  std::mutex mutex_;
};

std::unordered_set<at::TensorImpl*> some_of(const std::vector<at::Tensor>& tensors,
                                            const std::vector<int>& indices) {
  std::unordered_set<at::TensorImpl*> impls;
  for (int i : indices) impls.insert(tensors[i].unsafeGetTensorImpl());
  return impls;
}

variable_list refuse_tangents(const variable_list&, const variable_list&) {
  throw Unsupported("forward-mode differentiation of a custom function is not captured");
}

}  // namespace

void call_custom(const std::shared_ptr<const CustomFunction>& function, torch::jit::Stack& stack) {
  std::vector<at::Tensor> arguments;
  for (c10::IValue& value : stack) arguments.push_back(std::move(value).toTensor());
  const variable_list inputs(arguments.begin(), arguments.begin() + function->inputs);
  const bool differentiated =
      at::GradMode::is_enabled() && torch::autograd::any_variable_requires_grad(inputs);
  c10::intrusive_ptr<Node> node;
  if (differentiated) {
    node = c10::make_intrusive<Node>(function);
    node->set_next_edges(torch::autograd::collect_next_edges(inputs));
    node->clear_input_metadata();
  }
  const auto dirty = some_of(arguments, function->dirty);
  std::vector<at::Tensor> outputs;
  {
    at::AutoGradMode off(false);
    outputs = function->forward(std::move(arguments));
  }
  for (at::TensorImpl* impl : dirty) impl->bump_version();
  const auto fixed = some_of(outputs, function->non_differentiable);
  const std::vector<std::optional<at::Tensor>> raw(outputs.begin(),
                                                   outputs.begin() + function->results);
  const auto results = torch::autograd::_wrap_outputs(
      inputs, fixed, dirty, raw, node, refuse_tangents, {},
      [](const at::Tensor& x) { return x.view_as(x); }, /*pure_view=*/false);
  stack.clear();
  for (const auto& result : results) stack.emplace_back(*result);
  if (!differentiated) return;
  node->note_results(results);
  for (size_t i = 0; i < function->held.size(); ++i) {
    const Held& how = function->held[i];
    node->hold(how.result >= 0 ? *results[how.result] : outputs[function->results + i], how);
  }
}

}  // namespace fulgurite
