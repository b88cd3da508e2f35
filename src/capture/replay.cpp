#include "capture/replay.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "base/error.h"
#include "ir/number_argument.h"
#include "ir/print.h"

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

// Compares values with their types as a replay goes along.
class TypeCheck {
 public:
  explicit TypeCheck(const Trace& trace) : trace_(trace) {}

  void retype(const Call& call) {
    for (const Retyped& retyped : call.retyped) now_[retyped.id] = retyped.type;
  }

  void compare(ValueId id, const at::Tensor& tensor, const std::string& after) {
    if (!difference.empty()) return;
    const auto retyped = now_.find(id);
    const TensorType& type = retyped == now_.end() ? type_of(trace_, id) : retyped->second;
    const std::string what = differs(type, tensor);
    if (!what.empty())
      difference =
          fmt::format("{} of value {} after {}: expected {}, is {} with strides {}", what, id,
                      after, print_type(type), c10::str(tensor.toString(), tensor.sizes()),
                      c10::str(tensor.strides()));
  }

  std::string difference;

 private:
  std::string differs(const TensorType& type, const at::Tensor& tensor) {
    if (!tensor.defined()) return "existence";
    if (type.dtype != tensor.scalar_type()) return "dtype";
    if (type.device != tensor.device()) return "device";
    if (at::IntArrayRef(type.sizes) != tensor.sizes()) return "sizes";
    for (int64_t i = 0; i < tensor.dim() && tensor.numel() > 0; ++i)
      if (type.sizes[i] > 1 && type.strides[i] != tensor.stride(i)) return "strides";
    if (tensor.numel() > 0 && type.offset != tensor.storage_offset()) return "offset";
    if (type.conj != tensor.is_conj() || type.neg != tensor.is_neg()) return "lazy bits";
    return same_memory(type.storage, tensor.storage()) ? "" : "memory";
  }

  // A storage of the trace is one storage of the run, and the other way round.
  bool same_memory(StorageId id, const c10::Storage& storage) {
    const auto [real, first] = real_of_.try_emplace(id, storage);
    const auto [of, first_real] = id_of_.try_emplace(storage.unsafeGetStorageImpl(), id);
    return real->second.is_alias_of(storage) && of->second == id;
  }

  const Trace& trace_;
  std::unordered_map<ValueId, TensorType> now_;
  std::unordered_map<StorageId, c10::Storage> real_of_;  // kept: an address stands for one
  std::unordered_map<const c10::StorageImpl*, StorageId> id_of_;
};

std::vector<at::Tensor> environment(const Trace& trace, const std::vector<at::Tensor>& inputs) {
  if (inputs.size() != trace.inputs.size())
    user_error("the trace takes {} inputs, given {}", trace.inputs.size(), inputs.size());
  std::vector<at::Tensor> env(trace.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) env[trace.inputs[i].id] = inputs[i];
  return env;
}

}  // namespace

void run_calls(std::span<const Call> calls, std::vector<at::Tensor>& env, const Running& running) {
  torch::jit::Stack stack;
  for (const Call& call : calls) {
    if (!call.op.aten || (running.bodies && !call.body.empty())) {
      run_calls(call.body, env, running);
    } else {
      UnderMode mode(call.mode);
      push_args(call, env, stack);
      call.op.aten->callBoxed(stack);
      pop_results(call, stack, env);
      if (running.after) running.after(call, env);
    }
    for (ValueId id : call.frees) env[id] = at::Tensor();
  }
}

void push_args(const Call& call, const std::vector<at::Tensor>& env, torch::jit::Stack& stack) {
  for (size_t i = 0; i < call.args.size(); ++i) {
    const Arg& arg = call.args[i];
    const c10::Argument& schema = call.op.aten->schema().arguments()[i];
    if (arg.kind == Arg::Kind::Constant) {
      stack.push_back(arg.constant);
    } else if (takes_number(schema)) {
      stack.emplace_back(env[arg.values[0]].item());
    } else if (takes_numbers(schema)) {
      c10::List<at::Scalar> numbers;
      for (ValueId id : arg.values) numbers.push_back(env[id].item());
      stack.emplace_back(std::move(numbers));
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
  std::vector<at::Tensor> env = environment(trace, inputs);
  run_calls(trace.calls, env);
  std::vector<at::Tensor> outputs;
  for (ValueId id : trace.outputs) outputs.push_back(env[id]);
  return outputs;
}

std::string check_types(const Trace& trace, const std::vector<at::Tensor>& inputs, bool bodies) {
  std::vector<at::Tensor> env = environment(trace, inputs);
  TypeCheck check(trace);
  for (const Input& input : trace.inputs) check.compare(input.id, env[input.id], "input");
  Running running{bodies, [&](const Call& call, const std::vector<at::Tensor>& now) {
                    check.retype(call);
                    for_each_value(call.args,
                                   [&](ValueId id) { check.compare(id, now[id], call.op.name()); });
                    for_each_value(call.results,
                                   [&](ValueId id) { check.compare(id, now[id], call.op.name()); });
                  }};
  run_calls(trace.calls, env, running);
  return check.difference;
}

}  // namespace fulgurite
