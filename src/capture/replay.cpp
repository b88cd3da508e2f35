#include "capture/replay.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "base/error.h"

namespace fulgurite {
namespace {

// The grad mode of a call, for as long as it runs.
class UnderMode {
 public:
  explicit UnderMode(GradMode mode) : grad_(mode == GradMode::Grad) {
    const bool inference = mode == GradMode::Inference;
    if (inference != c10::InferenceMode::is_enabled()) inference_.emplace(inference);
    if (mode == GradMode::Grad && !at::GradMode::is_enabled()) at::GradMode::set_enabled(true);
  }

 private:
  c10::AutoGradMode grad_;
  std::optional<c10::InferenceMode> inference_;
};

void run(const std::vector<Call>& calls, std::vector<at::Tensor>& env, torch::jit::Stack& stack) {
  for (const Call& call : calls) {
    if (!call.op.aten) {
      run(call.body, env, stack);
      continue;
    }
    UnderMode mode(call.mode);
    stack.clear();
    push_args(call, env, stack);
    call.op.aten->callBoxed(stack);
    pop_results(call, stack, env);
    for (ValueId id : call.frees) env[id] = at::Tensor();
  }
}

}  // namespace

void push_args(const Call& call, const std::vector<at::Tensor>& env, torch::jit::Stack& stack) {
  for (const Arg& arg : call.args) {
    if (arg.kind == Arg::Kind::Constant) {
      stack.push_back(arg.constant);
    } else if (arg.kind == Arg::Kind::Value) {
      stack.emplace_back(env[arg.values[0]]);
    } else if (arg.optional_elements) {
      c10::List<std::optional<at::Tensor>> list;
      for (ValueId id : arg.values)
        list.push_back(id == kNoValue ? std::nullopt : std::optional(env[id]));
      stack.emplace_back(std::move(list));
    } else {
      c10::List<at::Tensor> list;
      for (ValueId id : arg.values) list.push_back(id == kNoValue ? at::Tensor() : env[id]);
      stack.emplace_back(std::move(list));
    }
  }
}

void pop_results(const Call& call, torch::jit::Stack& stack, std::vector<at::Tensor>& env) {
  const size_t first = stack.size() - call.results.size();
  for (size_t i = 0; i < call.results.size(); ++i) {
    const Arg& result = call.results[i];
    c10::IValue& value = stack[first + i];
    if (result.kind == Arg::Kind::Value) {
      env[result.values[0]] = std::move(value).toTensor();
    } else if (result.kind == Arg::Kind::ValueList) {
      const auto elements = value.toListRef();
      require(elements.size() == result.values.size(), "{} returned {} tensors, not {}",
              call.op.name(), elements.size(), result.values.size());
      for (size_t k = 0; k < elements.size(); ++k)
        if (result.values[k] != kNoValue) env[result.values[k]] = elements[k].toTensor();
    }
  }
  stack.resize(first);
}

std::vector<at::Tensor> replay(const Trace& trace, const std::vector<at::Tensor>& inputs) {
  if (inputs.size() != trace.inputs.size())
    user_error("the trace takes {} inputs, given {}", trace.inputs.size(), inputs.size());
  std::vector<at::Tensor> env(trace.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) env[trace.inputs[i].id] = inputs[i];
  torch::jit::Stack stack;
  run(trace.calls, env, stack);
  std::vector<at::Tensor> outputs;
  for (ValueId id : trace.outputs) outputs.push_back(env[id]);
  return outputs;
}

}  // namespace fulgurite
