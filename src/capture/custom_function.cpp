#include "capture/custom_function.h"

#include "capture/state.h"
#include "torch/dispatch_state.h"

namespace fulgurite {
namespace {

// A backward that runs another one (a checkpoint) leaves gradients in leaves, which are results of
// its own then. Each leaf has none meanwhile.
class LeafGradients {
 public:
  explicit LeafGradients(Tracer::State& state) {
    for (const Lifted& lifted : state.lifted) watch(lifted.real);
    for (const auto& argument : state.arguments) watch(argument.traced);
  }
  ~LeafGradients() {
    for (auto& [leaf, grad] : before_) leaf.mutable_grad() = grad;
  }
  LeafGradients(const LeafGradients&) = delete;
  LeafGradients& operator=(const LeafGradients&) = delete;

  template <class F>
  void for_each_given(F&& f) const {
    for (const auto& [leaf, grad] : before_)
      if (leaf.grad().defined()) f(leaf, leaf.grad());
  }

 private:
  void watch(const at::Tensor& tensor) {
    if (!tensor.requires_grad() || !tensor.is_leaf()) return;
    before_.emplace_back(tensor, tensor.grad());
    tensor.mutable_grad() = at::Tensor();
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> before_;
};

}  // namespace

struct CustomCall::Recorded {
  explicit Recorded(Tracer::State& state) : state(state), outside(std::move(state.trace.calls)) {
    state.trace.calls.clear();
  }

  Tracer::State& state;
  std::vector<Call> outside;  // recorded before the function was called
  Call call;
  CustomGradient gradient;
  bool in_forward = true;
  std::vector<at::Tensor> outputs;
  // While a backward runs.
  std::optional<NoAutocast> no_autocast;
  std::optional<LeafGradients> leaves;

  ValueId id_of(const at::Tensor& tensor) {
    return tensor.defined() ? state.id_of(tensor) : kNoValue;
  }
  bool is_argument(ValueId id) const {
    for (const Arg& arg : call.args)
      if (arg.values[0] == id) return true;
    return false;
  }
  at::Tensor gradient_like(const at::Tensor& output);
  void take_leaf_gradients(CustomGradient::Case& one);
};

bool CustomCall::possible() {
  const Tracer::State* state = active_state();
  return state && !state->frame && !functorch_active(dispatch_state());
}

CustomCall::CustomCall(std::string name, const std::vector<at::Tensor>& inputs) {
  require(possible(), "a custom function is recorded without a capture");
  Tracer::State& state = *active_state();
  Call call;
  call.op = Op::named(std::move(name));
  call.mode = current_grad_mode();
  for (const at::Tensor& input : inputs) {
    const auto* traced = as_trace(state.to_trace(input));
    state.note_history(*traced);
    call.args.push_back(Arg::of(traced->id));
  }
  state.note_place(call);
  recorded_ = std::make_unique<Recorded>(state);
  recorded_->call = std::move(call);
  recorded_->gradient.differentiable = inputs.size();
}

CustomCall::~CustomCall() { give_up(); }

void CustomCall::give_up() {
  if (!recorded_) return;
  Recorded& r = *recorded_;
  std::vector<Call>& now = r.state.trace.calls;
  if (r.in_forward) r.call.body = std::move(now);
  now = std::move(r.outside);
  std::move(r.call.body.begin(), r.call.body.end(), std::back_inserter(now));
  r.state.any_layout = false;
  recorded_.reset();
}

void CustomCall::end_forward(const std::vector<at::Tensor>& outputs,
                             const std::vector<at::Tensor>& saved, bool zeros_for_none) {
  Recorded& r = *recorded_;
  Tracer::State& state = r.state;
  r.outputs = outputs;
  r.gradient.zeros_for_none = zeros_for_none;
  for (const at::Tensor& output : outputs) {
    if (!as_trace(output))
      state.tracer->refuse(
          fmt::format("{}, a torch.autograd.Function, returns a tensor that it did not compute",
                      r.call.op.region),
          "return it from the captured function beside the results, or clone() it in the forward");
    const ValueId id = r.id_of(output);
    r.call.results.push_back(Arg::of(id));
    if (r.is_argument(id)) r.gradient.dirty.push_back(id);
    if (!output.requires_grad()) r.gradient.non_differentiable.push_back(id);
    note_custom_result(output);
  }
  for (const at::Tensor& tensor : saved) r.gradient.saved.push_back(r.id_of(tensor));
  r.call.body = std::exchange(state.trace.calls, {});
  r.in_forward = false;
}

at::Tensor CustomCall::Recorded::gradient_like(const at::Tensor& output) {
  const auto* traced = as_trace(output);
  const auto strides = c10::contiguous_strides(output.sizes());
  const at::Tensor meta =
      make_meta(make_meta_storage(output.numel() * static_cast<int64_t>(output.itemsize())),
                output.dtype(), output.sizes(), strides, 0);
  return state.wrap(meta, traced->real_device(), c10::InferenceMode::is_enabled());
}

std::vector<at::Tensor> CustomCall::begin_backward(const std::vector<bool>& given) {
  Recorded& r = *recorded_;
  r.no_autocast.emplace();
  r.leaves.emplace(r.state);
  r.state.any_layout = true;
  CustomGradient::Case& one = r.gradient.cases.emplace_back();
  one.given = given;
  std::vector<at::Tensor> gradients;
  for (size_t i = 0; i < given.size(); ++i) {
    gradients.push_back(given[i] ? r.gradient_like(r.outputs.at(i)) : at::Tensor());
    one.gradients.push_back(r.id_of(gradients.back()));
  }
  return gradients;
}

void CustomCall::Recorded::take_leaf_gradients(CustomGradient::Case& one) {
  leaves->for_each_given([&](const at::Tensor& leaf, const at::Tensor& grad) {
    if (gradient.cases.size() > 1)
      state.tracer->refuse(fmt::format("the backward of {} calls backward() under "
                                       "set_materialize_grads(False)",
                                       call.op.region),
                           "use torch.autograd.grad in it");
    call.args.push_back(Arg::of(id_of(leaf)));
    ++gradient.differentiable;
    one.results.push_back(id_of(grad));
  });
}

void CustomCall::end_backward(const std::vector<at::Tensor>& results) {
  Recorded& r = *recorded_;
  CustomGradient::Case& one = r.gradient.cases.back();
  for (const at::Tensor& result : results) one.results.push_back(r.id_of(result));
  r.take_leaf_gradients(one);
  r.leaves.reset();
  r.no_autocast.reset();
  r.state.any_layout = false;
  one.calls = std::exchange(r.state.trace.calls, {});
}

void note_custom_result(const at::Tensor& result) {
  Tracer::State& state = *active_state();
  const ValueId id = state.id_of(result);
  if (state.origin(id) == Origin::Input) return;
  state.trace.values[id].type.requires_grad = result.requires_grad();
  state.set_origin(id, Origin::Result);
}

void CustomCall::finish() {
  Recorded& r = *recorded_;
  r.call.gradient = std::make_shared<const CustomGradient>(std::move(r.gradient));
  r.state.trace.calls = std::move(r.outside);
  r.state.trace.calls.push_back(std::move(r.call));
  recorded_.reset();
}

}  // namespace fulgurite
