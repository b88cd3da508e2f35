#include "bindings/rewrite.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <optional>

#include "bindings/python_tensor.h"
#include "bindings/tensor_caster.h"
#include "capture/origins.h"
#include "capture/replay.h"
#include "ir/print.h"
#include "ir/rename.h"
#include "passes/passes.h"

namespace fulgurite {
namespace {

// What a rule is called under: the grad mode of the call, and no autocast, whose casts are calls.
struct UnderMode {
  explicit UnderMode(GradMode mode) : grad(mode == GradMode::Grad) {
    const bool inference = mode == GradMode::Inference;
    if (inference != c10::InferenceMode::is_enabled()) in_inference.emplace(inference);
    if (mode == GradMode::Grad) at::GradMode::set_enabled(true);
  }
  c10::AutoGradMode grad;
  std::optional<c10::InferenceMode> in_inference;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{c10::autocast_dispatch_keyset};
};

using Tensors = std::vector<at::Tensor>;

Tensors tensors_of(nb::handle list, const char* who) {
  Tensors tensors;
  for (nb::handle item : list) {
    if (!is_python_tensor(item.ptr()))
      user_error("{} returned a {} among its results; it has to return tensors", who,
                 Py_TYPE(item.ptr())->tp_name);
    tensors.push_back(tensor_of(item.ptr()));
  }
  return tensors;
}

class Rewriter {
 public:
  explicit Rewriter(TracePtr old)
      : old_(std::move(old)), successor_(*old_), env_(old_->values.size()) {
    for (const Call& call : old_->calls)
      if (call.gradient)
        user_error(
            "the trace applies {}, an autograd.Function with a backward of its own, which "
            "would be lost when the trace is run again",
            call.op.name());
  }

  // `program(inputs)` gives the outputs.
  template <class F>
  Trace run(F&& program) {
    Tracer tracer;
    Tensors inputs, outputs;
    for (const Input& input : old_->inputs)
      inputs.push_back(
          tracer.input(type_of(*old_, input.id), old_->values[input.id].name, input.kind));
    for (size_t i = 0; i < inputs.size(); ++i) successor_.stands_for(old_->inputs[i].id, inputs[i]);
    const Origins origins([this] { return current_; }, /*in_language=*/true);
    {
      UnderMode mode(old_->mode);
      Tracer::Listening listening(tracer);
      outputs = program(inputs);
    }
    if (outputs.size() != old_->outputs.size())
      user_error("the new program returns {} tensors, and the trace returned {}", outputs.size(),
                 old_->outputs.size());
    Captured captured = tracer.finish(outputs, old_->output_tree);
    if (!captured.lifted.empty())
      user_error(
          "the new program uses {} that exists outside of it; make the tensor by calls of "
          "torch within the program",
          describe_trace_tensor(captured.lifted[0]));
    return finished(std::move(captured.trace), origins);
  }

  Tensors run_with(nb::callable rule, const Tensors& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) env_[old_->inputs[i].id] = inputs[i];
    for (const Call& call : old_->calls) {
      current_ = &call;
      UnderMode mode(call.mode);
      nb::object made = ask(rule, call);
      if (made.is(nb::handle(Py_NotImplemented)))
        keep_checked(call), remember_region(call);
      else
        take(call, made);
      for_each_value(call.results, [&](ValueId id) { successor_.stands_for(id, env_[id]); });
    }
    current_ = nullptr;
    Tensors outputs;
    for (ValueId id : old_->outputs) outputs.push_back(env_[id]);
    return outputs;
  }

 private:
  nb::object ask(const nb::callable& rule, const Call& call) const {
    try {
      return rule(BoundCall{old_, &call}, *arguments(call));
    } catch (nb::python_error& error) {
      error.value().attr("add_note")("raised by the rule for " + print_call(*old_, call));
      throw;
    }
  }

  // What a rule gave for other calls may be what this one cannot take.
  void keep_checked(const Call& call) {
    try {
      keep(call);
    } catch (const c10::Error& error) {
      user_error("{}\n  in {}, which runs again on what the rule gave for calls before it",
                 error.what_without_backtrace(), print_call(*old_, call));
    }
  }

  // A region runs again as its calls, of which it is made again in the end.
  void remember_region(const Call& call) {
    if (call.op.aten) return;
    Call region = call;
    const auto rename = [&](std::vector<Arg>& args) {
      for (Arg& arg : args)
        for (ValueId& id : arg.values)
          if (id != kNoValue) id = trace_value(env_[id]);
    };
    rename(region.args);
    rename(region.results);
    region.body.clear();
    region.frees.clear();
    regions_.emplace(&call, std::move(region));
  }

  void make_regions(Trace& made, const Origins& origins) const {
    std::vector<Call> calls;
    const Call* open = nullptr;  // whose calls are being put together
    for (Call& call : made.calls) {
      const Call* origin = origins.of(call);
      const auto region = regions_.find(origin);
      if (region == regions_.end()) {
        open = nullptr;
        calls.push_back(std::move(call));
        continue;
      }
      if (open != origin) {
        calls.push_back(region->second);
        calls.back().source = call.source;
      }
      open = origin;
      calls.back().body.push_back(std::move(call));
    }
    made.calls = std::move(calls);
  }

  void keep(const Call& call) {
    if (call.frees.empty()) return run_calls({&call, 1}, env_);
    Call kept = call;  // whose values are still looked at
    kept.frees.clear();
    run_calls({&kept, 1}, env_);
  }

  nb::list arguments(const Call& call) const {
    nb::list list;
    const auto tensor = [&](ValueId id) {
      return id == kNoValue ? nb::object(nb::none()) : nb::cast(env_[id]);
    };
    for (const Arg& arg : call.args) {
      if (arg.kind == Arg::Kind::Constant) {
        list.append(constant_in_python(arg.constant));
      } else if (arg.kind == Arg::Kind::Value) {
        list.append(tensor(arg.values[0]));
      } else {
        nb::list tensors;
        for (ValueId id : arg.values) tensors.append(tensor(id));
        list.append(tensors);
      }
    }
    return list;
  }

  void take(const Call& call, nb::object made) {
    if (nb::isinstance<nb::dict>(made)) return take_values(call, nb::borrow<nb::dict>(made));
    const size_t expected = call.results.size();
    nb::list results;
    if (expected == 1) {
      results.append(made);
    } else if (expected > 1 && nb::isinstance<nb::sequence>(made)) {
      results = nb::list(made);
    }
    if (nb::len(results) != expected)
      user_error(
          "the rule returned a {} for {}, which has {} results; it has to return as many, "
          "or NotImplemented to keep the call",
          Py_TYPE(made.ptr())->tp_name, call.op.name(), expected);
    for (size_t i = 0; i < expected; ++i) take_result(call, call.results[i], results[i]);
  }

  void take_result(const Call& call, const Arg& result, nb::handle made) {
    nb::list one;
    if (result.kind == Arg::Kind::Value) one.append(made);
    const Tensors tensors =
        tensors_of(result.kind == Arg::Kind::Value ? nb::handle(one) : made, "the rule");
    if (tensors.size() != result.values.size())
      user_error("the rule returned {} tensors for {}, which gives {}", tensors.size(),
                 call.op.name(), result.values.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      at::Tensor& value = env_[result.values[i]];
      if (value.defined() && !value.is_same(tensors[i]))
        user_error("the rule has to return the tensor that {} writes to: others know it, too",
                   call.op.name());
      value = tensors[i];
    }
  }

  // {value: tensor}: of the call's results, and of values made before.
  void take_values(const Call& call, nb::dict made) {
    for (auto [key, tensor] : made) {
      if (!nb::isinstance<BoundValue>(key) || nb::cast<const BoundValue&>(key).trace != old_)
        user_error("the rule returned a dict with a {} for {}; its keys are values of the trace",
                   Py_TYPE(key.ptr())->tp_name, call.op.name());
      nb::list one;
      one.append(tensor);
      env_.at(nb::cast<const BoundValue&>(key).id) = tensors_of(one, "the rule")[0];
    }
    for_each_value(call.results, [&](ValueId id) {
      if (!env_[id].defined())
        user_error("the rule returned no tensor for {} of {}", spell(*old_, id), call.op.name());
    });
  }

  Trace finished(Trace made, const Origins& origins) const {
    make_regions(made, origins);
    if (old_->epilogue >= 0) made.epilogue = static_cast<int32_t>(made.calls.size());
    for (size_t i = made.calls.size(); i-- > 0;) {
      const Call* origin = origins.of(made.calls[i]);
      if (old_->epilogue >= 0 && origin && origin - old_->calls.data() >= old_->epilogue)
        made.epilogue = static_cast<int32_t>(i);
    }
    made = successor_.of(std::move(made), origins);
    const bool freed = std::any_of(old_->calls.begin(), old_->calls.end(),
                                   [](const Call& call) { return !call.frees.empty(); });
    return freed ? delete_last_used(made) : made;
  }

  TracePtr old_;
  Successor successor_;
  Tensors env_;                                    // by value of the old trace
  const Call* current_ = nullptr;                  // of it
  std::unordered_map<const Call*, Call> regions_;  // of the old trace -> with new values
};

}  // namespace

Trace rewrite(TracePtr trace, nb::callable rule) {
  Rewriter rewriter(std::move(trace));
  return rewriter.run([&](const Tensors& inputs) { return rewriter.run_with(rule, inputs); });
}

Trace retrace(TracePtr trace, nb::callable program) {
  return Rewriter(std::move(trace)).run([&](const Tensors& inputs) {
    nb::list given;
    for (const at::Tensor& input : inputs) given.append(nb::cast(input));
    return tensors_of(program(*given), "the program");
  });
}

Trace with_calls(TracePtr trace, nb::iterable calls) {
  Trace made = *trace;
  made.calls.clear();
  const Call* first = trace->calls.data();
  const auto count = static_cast<ptrdiff_t>(trace->calls.size());
  int32_t epilogue = -1;
  for (nb::handle item : calls) {
    const auto& bound = nb::cast<const BoundCall&>(item);
    const ptrdiff_t index = bound.call - first;
    if (bound.trace != trace || index < 0 || index >= count)
      user_error("with_calls() takes the trace's own bound_symbols; use rewrite() to make others");
    if (epilogue < 0 && trace->epilogue >= 0 && index >= trace->epilogue)
      epilogue = static_cast<int32_t>(made.calls.size());
    made.calls.push_back(*bound.call);
  }
  const bool none = trace->epilogue >= 0 && epilogue < 0;
  made.epilogue = none ? static_cast<int32_t>(made.calls.size()) : epilogue;
  return made;
}

}  // namespace fulgurite
