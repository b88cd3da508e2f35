// Composite operators whose parts look at data, recorded without their parts.
#include "capture/probe.h"
#include "torch/dispatch_state.h"

namespace fulgurite {
namespace {

void refuse_gradient() {
  const char* text =
      "the captured function differentiates an operator that looks at data (cov, istft, quantile)";
  if (auto* state = active_state())
    state->tracer->refuse(text, "return its result, and differentiate outside of the function");
  raise(Unsupported(text));
}

// Results like those that the operator has on ones.
class Whole {
 public:
  Whole(Tracer::State& state, Call& call, const torch::jit::Stack& given)
      : state_(state), call_(call) {
    for_each_tensor(c10::ArrayRef<c10::IValue>(given), [&](const at::Tensor& t) {
      if (!is_number(t)) given_.emplace(state.id_of(t), t);
    });
  }

  void run(torch::jit::Stack* stack) {
    const torch::jit::Stack real = run_on_ones(state_, call_, env_);
    for_each_value(call_.args, [&](ValueId id) {
      if (!has_type_of(state_, id, env_[id])) throw Unsupported("the call changes a geometry");
    });
    for (const c10::IValue& value : real) {
      stack->push_back(map_tensors(value, [&](const at::Tensor& t) { return result(t); }));
      call_.results.push_back(
          to_arg(stack->back(), [&](const at::Tensor& t) { return state_.id_of(t); }));
    }
    for (int i : facts_of(*call_.op.aten).written)
      for (ValueId id : call_.args[i].values)
        if (id != kNoValue) state_.note_written(state_.trace.values[id].type.storage);
    state_.add(std::move(call_));
  }

 private:
  at::Tensor result(const at::Tensor& real) {
    for (const auto& [id, given] : given_)
      if (env_[id].is_same(real)) return given;
    const at::Tensor meta = make_meta(make_meta_storage(real.storage().nbytes()), real.dtype(),
                                      real.sizes(), real.strides(), real.storage_offset());
    at::Tensor traced = state_.wrap(meta, real.device(), real.is_inference());
    if (real.requires_grad()) state_.make_opaque(traced);
    return traced;
  }

  Tracer::State& state_;
  Call& call_;
  std::vector<at::Tensor> env_;
  std::unordered_map<ValueId, at::Tensor> given_;
};

bool writes_anything(const std::vector<Call>& calls) {
  return std::any_of(calls.begin(), calls.end(), [](const Call& call) {
    return !written_args(call).empty() || writes_anything(call.body);
  });
}

bool any_requires_grad(const torch::jit::Stack& arguments) {
  bool found = false;
  for_each_tensor(c10::ArrayRef<c10::IValue>(arguments),
                  [&](const at::Tensor& t) { found |= t.requires_grad(); });
  return found;
}

}  // namespace

void Tracer::State::make_opaque(const at::Tensor& result) {
  has_opaque_gradients = true;
  make_non_leaf(result, &refuse_gradient);
}

bool Tracer::State::record_whole(const c10::OperatorHandle& op, const OpInfo& info, Call& call,
                                 const torch::jit::Stack& arguments, torch::jit::Stack* stack) {
  const bool differentiable = at::GradMode::is_enabled() && any_requires_grad(arguments);
  const auto first_value = static_cast<ValueId>(trace.values.size());
  const bool types_known = info.facts->checks_data ||
                           (!info.composite && !info.facts->reads_data && !info.facts->is_view);
  if (info.writes &&
      (!info.has_out || !info.composite || differentiable || writes_anything(call.body)))
    return false;
  try {
    if (types_known && can_run_on_ones(*this, call)) {
      call.body.clear();
      Whole(*this, call, arguments).run(stack);
    } else if (info.composite) {
      stack->insert(stack->end(), arguments.begin(), arguments.end());
      record(op, info, stack);
      // Which of them has a gradient only the operator knows; a composite one hands all on.
      if (differentiable)
        for (const c10::IValue& value : torch::jit::last(*stack, info.returns))
          for_each_tensor(value, [this](const at::Tensor& t) {
            if (c10::isFloatingType(t.scalar_type()) || t.is_complex()) make_opaque(t);
          });
    } else {
      return false;
    }
  } catch (...) {
    return false;
  }
  wanted_data.reset();
  refusal.reset();  // what was refused is the read, or that there is no rule
  note_results(info, *stack, first_value);
  return true;
}

void Tracer::State::refuse_data(const Call& call) {
  const Unsupported refused =
      wanted_data ? *wanted_data
                  : refusal_of(fmt::format("{} looks at the data of its arguments", call.op.name()),
                               "use another operator, or leave this part out of the captured "
                               "function");
  wanted_data.reset();
  refusal = refused;
  raise(refused);
}

void Tracer::State::refuse_other_error(const Call& call, const std::string& error) {
  const std::string text = fmt::format("{} cannot be captured with these arguments: {}",
                                       call.op.name(), error.substr(0, error.find('\n')));
  const std::string instead = "leave this part out of the captured function";
  if (!can_run_on_ones(*this, call)) {
    // Whether eager fails, too, is not known: a program may not go on from here.
    if (!refusal) refusal = refusal_of(text, instead);
    return;
  }
  try {
    std::vector<at::Tensor> env;
    run_on_ones(*this, call, env);
  } catch (const std::exception&) {
    return;  // eager fails, too
  }
  if (refusal) raise(*refusal);
  tracer->refuse(text, instead);
}

}  // namespace fulgurite
