#include "passes/differentiate.h"

#include <algorithm>
#include <unordered_set>

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/node.h>

#include "base/error.h"
#include "capture/custom_function.h"
#include "capture/origins.h"
#include "capture/replay.h"
#include "capture/tracer.h"
#include "ir/custom_call.h"
#include "ir/layout.h"
#include "ir/names.h"
#include "ops/facts.h"
#include "passes/memory.h"
#include "torch/dispatch_state.h"

namespace fulgurite {
namespace {

using Tensors = std::vector<at::Tensor>;

// Bytes of inputs that are written, as running statistics are: they are kept as they were before.
constexpr int64_t kMostWritten = 1 << 20;

std::unordered_set<StorageId> storages_of_inputs(const Trace& trace) {
  std::unordered_set<StorageId> storages;
  for (const Input& input : trace.inputs) storages.insert(type_of(trace, input.id).storage);
  return storages;
}

bool is_input(const Trace& trace, ValueId id) {
  return std::ranges::find(trace.inputs, id, &Input::id) != trace.inputs.end();
}

// Storages that `calls` write to as their schemas say; the others that they write to in `hidden`.
void find_writes(const Trace& trace, const std::vector<Call>& calls,
                 std::unordered_set<StorageId>& declared, std::unordered_set<StorageId>& hidden) {
  for (const Call& call : calls) {
    if (!call.op.aten || (!call.body.empty() && !facts_of(*call.op.aten).hidden_write_flag)) {
      find_writes(trace, call.body, declared, hidden);
      continue;
    }
    for (int i : written_args(call)) {
      for (ValueId id : call.args[i].values)
        if (id != kNoValue)
          (declares_write(call, i) ? declared : hidden).insert(type_of(trace, id).storage);
    }
  }
}

// Why the gradient of `calls` cannot be that of a joint trace; "" where it can.
std::string fault_of(const Trace& trace, const std::vector<Call>& calls,
                     const std::unordered_set<StorageId>& given) {
  for (const Call& call : calls) {
    if (!call.retyped.empty())
      return fmt::format("{} changes the geometry of a tensor in place", call.op.name());
    if (call.mode == GradMode::Inference) return "a part of it runs in inference mode";
    for (int i :
         call.op.aten ? facts_of(*call.op.aten).generator_args : decltype(OpFacts::written)())
      if (!call.args[i].constant.isNone())
        return fmt::format("{} draws from a generator of its own", call.op.name());
    bool differentiable = false;
    for_each_value(call.args,
                   [&](ValueId id) { differentiable |= type_of(trace, id).requires_grad; });
    for (int i : written_args(call))
      for (ValueId id : call.args[i].values)
        if (differentiable && declares_write(call, i) && id != kNoValue &&
            given.contains(type_of(trace, id).storage))
          return fmt::format("{} writes to an input that has, or gets, a history", call.op.name());
    if (std::string inner = fault_of(trace, call.body, given); !inner.empty()) return inner;
    if (!call.gradient) continue;
    for (const CustomGradient::Case& one : call.gradient->cases)
      if (std::string inner = fault_of(trace, one.calls, given); !inner.empty()) return inner;
  }
  return "";
}

std::string fault_of(const Trace& trace) {
  const std::unordered_set<StorageId> given = storages_of_inputs(trace);
  std::unordered_set<StorageId> seen = given;
  std::unordered_set<ValueId> known;
  for (ValueId id : trace.outputs)
    if (!is_input(trace, id) && known.insert(id).second &&
        !seen.insert(type_of(trace, id).storage).second)
      return "an output shares memory with an input or another output";
  std::unordered_set<StorageId> declared, hidden;
  find_writes(trace, trace.calls, declared, hidden);
  int64_t written = 0;
  for (const Input& input : trace.inputs) {
    const TensorType& type = type_of(trace, input.id);
    if (declared.contains(type.storage) || hidden.contains(type.storage)) written += type.nbytes;
  }
  if (written > kMostWritten)
    return fmt::format("it writes to {} bytes of its inputs, which would be copied each time",
                       written);
  return fault_of(trace, trace.calls, given);
}

std::vector<size_t> find_statistics(const Trace& trace) {
  std::unordered_set<StorageId> declared, hidden;
  find_writes(trace, trace.calls, declared, hidden);
  std::vector<size_t> found;
  for (size_t i = 0; i < trace.inputs.size(); ++i) {
    const StorageId storage = type_of(trace, trace.inputs[i].id).storage;
    if (hidden.contains(storage) && !declared.contains(storage)) found.push_back(i);
  }
  return found;
}

// As gradients of outputs come in; others are copied.
TensorType gradient_type(const TensorType& output) {
  TensorType type;
  type.dtype = output.dtype;
  type.device = output.device;
  type.sizes = output.sizes;
  type.strides = output.strides;
  if (!is_dense(output)) {
    const auto strides = c10::contiguous_strides(output.sizes);
    type.strides.assign(strides.begin(), strides.end());
  }
  type.nbytes = numel(type) * static_cast<int64_t>(c10::elementSize(type.dtype));
  return type;
}

// What autograd recorded of a call has these sequence numbers, or higher ones of later calls.
struct Recorded {
  uint64_t first = 0;
  const Call* call = nullptr;
};

// Draws of a backward pass. It draws anew each time, after what was drawn in between: only what a
// checkpoint draws again from the state that the generator had can be drawn in the forward pass,
// and then the state is put back.
class LateDraws {
 public:
  void add(const Call& call) {
    const std::string name = call.op.aten ? call.op.aten->schema().name() : "";
    if (name == "fulgurite::get_rng_state" && are_neutral())
      outside_ = call.results[0].values[0];
    else if (name == "fulgurite::set_rng_state" && outside_ != kNoValue)
      is_inside_ = call.args[0].values[0] != outside_;
    else if (!is_inside_)
      refuse();
  }
  bool are_neutral() const { return !is_inside_; }

  [[noreturn]] static void refuse() { throw Unsupported("its backward pass draws random numbers"); }

 private:
  ValueId outside_ = kNoValue;  // the state before
  bool is_inside_ = false;
};

class Differentiation {
 public:
  Differentiation(const Trace& trace, const std::vector<bool>& given, const AutocastState& autocast)
      : old_(trace), autocast_(autocast), successor_(trace), env_(trace.values.size()) {
    for (size_t i = 0; i < given.size(); ++i)
      if (given[i]) joint_.differentiated.push_back(i);
  }

  Joint run() {
    Tracer tracer;
    const Names names(old_);
    take_inputs(tracer, names);
    Origins origins([this] { return current(); });
    Tensors outputs;
    {
      NoAutocast no_autocast;
      c10::AutoGradMode on(true);
      Tracer::Listening listening(tracer);
      run_forward();
      origins.mark();
      if (tracer.has_opaque_gradients())
        throw Unsupported("the gradient of an operator that looks at data (cov, quantile, ...)");
      for (ValueId id : old_.outputs) outputs.push_back(env_[id]);
      run_backward(outputs);
    }
    const auto count = static_cast<int32_t>(outputs.size());
    Captured captured = tracer.finish(outputs, flat_tree(count));
    if (!captured.lifted.empty())
      throw Unsupported("its gradient uses a tensor that is none of its inputs");
    const std::vector<Made> made = find_late(captured.trace.calls, origins);
    joint_.trace = successor_.of(std::move(captured.trace), origins);
    for (size_t i = 0; i < made.size(); ++i) note_late(joint_.trace.calls[i], made[i]);
    name_gradients(names);
    return std::move(joint_);
  }

 private:
  enum class Made : uint8_t { Forward, Late, Again };

  static std::vector<Made> find_late(const std::vector<Call>& calls, const Origins& origins) {
    std::vector<Made> made;
    bool is_late = false;
    LateDraws late_draws;
    for (const Call& call : calls) {
      is_late |= origins.is_after_mark(call);
      if (is_late && draws(call)) late_draws.add(call);
      const Call* origin = origins.of(call);
      made.push_back(!is_late                     ? Made::Forward
                     : origin && origin->gradient ? Made::Again
                                                  : Made::Late);
    }
    if (!late_draws.are_neutral()) LateDraws::refuse();
    return made;
  }

  void note_late(const Call& call, Made made) {
    if (made == Made::Forward) return;
    for_each_value(call.results, [&](ValueId id) {
      joint_.late.insert(id);
      if (made == Made::Again) joint_.again.insert(id);
    });
    for (const Call& inner : call.body) note_late(inner, made);
  }

  void take_inputs(Tracer& tracer, const Names& names) {
    for (const Input& input : old_.inputs) {
      env_[input.id] =
          tracer.input(type_of(old_, input.id), old_.values[input.id].name, input.kind);
      successor_.stands_for(input.id, env_[input.id]);
    }
    for (size_t output : joint_.differentiated) {
      const ValueId id = old_.outputs[output];
      gradients_.push_back(
          tracer.input(gradient_type(type_of(old_, id)), "d_" + names.of(id), InputKind::Gradient));
    }
  }

  void run_forward() {
    for (const Call& call : old_.calls) {
      recorded_.push_back({at::sequence_number::peek(), &call});
      if (call.gradient)
        run_custom(call);
      else
        run_calls({&call, 1}, env_);
      for_each_value(call.results, [&](ValueId id) { successor_.stands_for(id, env_[id]); });
    }
    forward_is_done_ = true;
  }

  // With its own backward: the halves are run when autograd asks for them.
  void run_custom(const Call& call) {
    const auto part = [this](const std::vector<Call>& calls, const std::vector<ValueId>& inputs,
                             const std::vector<ValueId>& outputs) -> TensorProgram {
      return [this, &calls, inputs, outputs](Tensors given) {
        Tensors env(old_.values.size());
        for (size_t i = 0; i < inputs.size(); ++i) env[inputs[i]] = std::move(given[i]);
        run_calls(calls, env);
        Tensors made;
        for (ValueId id : outputs) made.push_back(id == kNoValue ? at::Tensor() : env[id]);
        return made;
      };
    };
    torch::jit::Stack stack;
    for_each_value(call.args, [&](ValueId id) { stack.emplace_back(env_[id]); });
    call_custom(custom_function(call, part), stack);
    for (const c10::IValue& result : stack) note_custom_result(result.toTensor());
    pop_results(call, stack, env_);
  }

  void run_backward(Tensors& outputs) {
    Tensors differentiated, leaves;
    std::vector<size_t> places;
    for (size_t i : joint_.differentiated) {
      if (!outputs[i].grad_fn())
        throw Unsupported("an output is made a leaf of the graph by the program itself");
      differentiated.push_back(outputs[i]);
    }
    for (size_t i = 0; i < old_.inputs.size(); ++i) {
      if (!type_of(old_, old_.inputs[i].id).requires_grad) continue;
      leaves.push_back(env_[old_.inputs[i].id]);
      places.push_back(i);
    }
    find_within(outputs);
    Tensors made;
    const AutocastState::Scope autocast(autocast_);
    without_language_lock([&] {
      made = torch::autograd::grad(differentiated, leaves, gradients_, /*retain_graph=*/false,
                                   /*create_graph=*/false, /*allow_unused=*/true);
    });
    for (size_t i = 0; i < made.size(); ++i) {
      if (!made[i].defined()) continue;
      if (!is_trace_tensor(made[i])) throw Unsupported("a gradient of it is no trace tensor");
      outputs.push_back(made[i]);
      joint_.gradient_of.push_back(places[i]);
    }
  }

  void find_within(const Tensors& outputs) {
    std::unordered_set<const torch::autograd::Node*> reached;
    std::vector<const torch::autograd::Node*> open;
    const auto reach = [&](const torch::autograd::Node* node) {
      if (node && reached.insert(node).second) open.push_back(node);
    };
    for (size_t i : joint_.differentiated) reach(outputs[i].grad_fn().get());
    while (!open.empty()) {
      const torch::autograd::Node* node = open.back();
      open.pop_back();
      for (const torch::autograd::Edge& edge : node->next_edges()) reach(edge.function.get());
    }
    for (const at::Tensor& output : outputs)
      joint_.within.push_back(!output.grad_fn() || reached.contains(output.grad_fn().get()));
  }

  const Call* current() const {
    if (recorded_.empty()) return nullptr;
    if (!forward_is_done_) return recorded_.back().call;
    const auto node = torch::autograd::get_current_node();
    if (!node) return nullptr;
    const auto after =
        std::ranges::upper_bound(recorded_, node->sequence_nr(), {}, &Recorded::first);
    return after == recorded_.begin() ? nullptr : std::prev(after)->call;
  }

  void name_gradients(const Names& names) {
    Trace& trace = joint_.trace;
    const size_t first = old_.outputs.size();
    for (size_t i = 0; i < joint_.gradient_of.size(); ++i) {
      std::string& name = trace.values[trace.outputs[first + i]].name;
      if (name.empty()) name = "d_" + names.of(old_.inputs[joint_.gradient_of[i]].id);
    }
  }

  const Trace& old_;
  const AutocastState autocast_;
  Successor successor_;
  Joint joint_;
  Tensors env_;  // by value of the old trace
  Tensors gradients_;
  std::vector<Recorded> recorded_;
  bool forward_is_done_ = false;
};

void drop_grad_mode(std::vector<Call>& calls) {
  for (Call& call : calls) {
    if (call.mode == GradMode::Grad) call.mode = GradMode::NoGrad;
    drop_grad_mode(call.body);
  }
}

void leave_autograd(Trace& trace) {
  std::vector<Call> calls;
  for (Call& call : trace.calls) {
    if (!call.body.empty() && asks_for_grad(trace, call))
      std::ranges::move(call.body, std::back_inserter(calls));
    else
      calls.push_back(std::move(call));
  }
  trace.calls = std::move(calls);
  trace.mode = GradMode::NoGrad;
  drop_grad_mode(trace.calls);
  for (ValueId id = 0; id < static_cast<ValueId>(trace.values.size()); ++id)
    if (!is_input(trace, id)) trace.values[id].type.requires_grad = false;
}

}  // namespace

bool declares_write(const Call& call, int argument) {
  const auto* alias = call.op.aten->schema().arguments()[argument].alias_info();
  return alias && alias->isWrite();
}

std::vector<bool> differentiable_outputs(const Trace& trace) {
  std::vector<bool> all;
  std::unordered_set<ValueId> seen;
  for (ValueId id : trace.outputs)
    all.push_back(type_of(trace, id).requires_grad && !is_input(trace, id) &&
                  seen.insert(id).second);
  return all;
}

Joint differentiate(const Trace& trace, const std::vector<bool>& given,
                    const AutocastState& autocast) {
  if (const std::string fault = fault_of(trace); !fault.empty()) throw Unsupported(fault);
  Joint joint;
  try {
    joint = Differentiation(trace, given, autocast).run();
  } catch (const InternalError&) {
    throw;
  } catch (const Unsupported&) {
    throw;
  } catch (const c10::Error& error) {  // of a formula of autograd, on tensors without data
    throw Unsupported(
        fmt::format("its gradient cannot be recorded: {}", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw Unsupported(fmt::format("its gradient cannot be recorded: {}", error.what()));
  }
  joint.statistics = find_statistics(trace);
  leave_autograd(joint.trace);
  return joint;
}

}  // namespace fulgurite
