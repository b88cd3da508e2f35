#include "capture/tracer.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <c10/core/AutogradState.h>

#include <algorithm>

#include "capture/normalise.h"
#include "capture/state.h"
#include "ir/print.h"
#include "ops/facts.h"
#include "torch/device_guard.h"
#include "torch/dispatch_state.h"
#include "torch/fallbacks.h"

namespace fulgurite {
namespace {

uint64_t next_serial() {
  static std::atomic<uint64_t> serial{0};
  return ++serial;
}

void refuse_outside_graph() {
  const char* text =
      "backward() reached the computation that an argument of the captured function came from";
  if (auto* state = active_state())
    state->tracer->refuse(text, "capture the whole computation, or detach() the argument");
  raise(Unsupported(text));
}

int32_t observe_data_taken(const TraceTensorImpl& tensor) {
  auto* state = active_state();
  if (!state || state->serial != tensor.owner) return tensor.id;
  auto self = c10::intrusive_ptr<c10::TensorImpl>::unsafe_reclaim_from_nonowning(
      const_cast<TraceTensorImpl*>(&tensor));
  return trace_value(record_internal(*state, "aten::detach", {at::Tensor(std::move(self))}));
}

void observe_data_set(TraceTensorImpl& tensor, c10::TensorImpl& source) {
  auto* state = active_state();
  if (!state) return;
  if (!as_trace(&source))
    state->tracer->refuse("the .data of a traced tensor was set to a real one",
                          "use tensor.copy_(...) instead");
  const auto handle = [](c10::TensorImpl& impl) {
    return at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::unsafe_reclaim_from_nonowning(&impl));
  };
  record_internal(*state, "aten::set_data", {handle(tensor), handle(source)});
}

void refuse_listening() {
  if (active_state()) user_error("a capture is already under way on this thread");
  const DispatchState state = dispatch_state();
  if (dispatch_mode_active(state))
    user_error(
        "cannot capture under a TorchDispatchMode (FakeTensorMode, make_fx, ...): leave it first");
  if (functorch_active(state))
    user_error(
        "cannot capture inside a torch.func transform (vmap, grad, ...): put the transform "
        "inside the captured function");
  if (state.included_.has(c10::DispatchKey::PreDispatch) ||
      state.included_.has(c10::DispatchKey::PythonDispatcher))
    user_error("cannot capture while torch.export or the Python dispatcher is at work");
}

}  // namespace

GradMode current_grad_mode() {
  if (c10::InferenceMode::is_enabled()) return GradMode::Inference;
  return at::GradMode::is_enabled() ? GradMode::Grad : GradMode::NoGrad;
}

Tracer::State::State(Tracer* tracer) : tracer(tracer), serial(next_serial()) {
  trace.values.reserve(256);
  trace.calls.reserve(64);
}

Tracer::Tracer() : state_(std::make_unique<State>(this)) {
  require_capture_keys();
  TraceTensorImpl::observer = {&observe_data_taken, &observe_data_set};
}

Tracer::~Tracer() = default;

Tracer::Deaf::Deaf() : listening_(active()) { set_active_state(nullptr); }
Tracer::Deaf::~Deaf() { set_active_state(listening_ ? &listening_->state() : nullptr); }

Tracer* Tracer::active() { return active_state() ? active_state()->tracer : nullptr; }

void Tracer::State::add_input(const at::Tensor& tensor, std::string name, InputKind kind,
                              bool requires_grad) {
  const ValueId id = trace_value(tensor);
  if (requires_grad) tensor.set_requires_grad(true);
  trace.values[id].type.requires_grad = requires_grad;
  trace.values[id].name = std::move(name);
  mark_input(id, kind);
}

at::Tensor Tracer::State::make_argument(const at::Tensor& real, std::string name) {
  require_plain(real);
  require_device_guard(real.device());
  at::Tensor traced = wrap(meta_like(real), real.device(), real.is_inference());
  add_input(traced, std::move(name), InputKind::Argument, real.requires_grad());
  if (!real.is_leaf()) {
    traced.set_requires_grad(false);
    make_non_leaf(traced, &refuse_outside_graph);
  } else if (real.grad().defined()) {
    traced.mutable_grad() = real.grad();
  }
  return traced;
}

at::Tensor Tracer::input(const at::Tensor& real, std::string name) {
  State& state = *state_;
  const auto known = state.argument_of.find(real.unsafeGetTensorImpl());
  if (known != state.argument_of.end()) return state.arguments[known->second].traced;
  at::Tensor traced = state.make_argument(real, std::move(name));
  state.argument_of.emplace(real.unsafeGetTensorImpl(), state.arguments.size());
  state.arguments.push_back({real, traced});
  return traced;
}

at::Tensor Tracer::input(const TensorType& type, std::string name, InputKind kind) {
  State& state = *state_;
  require_device_guard(type.device);
  auto& storage = state.given_storages[type.storage];
  if (!storage || type.storage == kNoStorage) storage = make_meta_storage(type.nbytes);
  at::Tensor meta = make_meta(storage, c10::scalarTypeToTypeMeta(type.dtype), type.sizes,
                              type.strides, type.offset);
  if (type.conj) meta._set_conj(true);
  if (type.neg) meta._set_neg(true);
  at::Tensor tensor = state.wrap(meta, type.device, c10::InferenceMode::is_enabled());
  state.add_input(tensor, std::move(name), kind, type.requires_grad);
  return tensor;
}

Tracer::Listening::Listening(Tracer& tracer) : tracer_(tracer) {
  refuse_listening();
  State& state = tracer.state();
  if (!state.entry_mode) state.entry_mode = current_grad_mode();
  // With the cache on, autocast would keep trace tensors beyond the capture.
  autocast_cache_ = at::autocast::is_autocast_cache_enabled();
  at::autocast::set_autocast_cache_enabled(false);
  // Backward passes of any device run on this thread: the others know nothing of the capture.
  auto& autograd = c10::AutogradState::get_tls_state();
  autograd_threads_ = autograd.get_multithreading_enabled();
  autograd.set_multithreading_enabled(false);
  // What hooks do to saved tensors, they do when the program runs.
  saved_hooks_ = at::SavedTensorDefaultHooks::set_tracing(true);
  c10::impl::tls_set_dispatch_key_included(kAbove, true);
  c10::impl::tls_set_dispatch_key_included(kBelow, true);
  set_active_state(&state);
}

Tracer::Listening::~Listening() {
  set_active_state(nullptr);
  c10::impl::tls_set_dispatch_key_included(kAbove, false);
  c10::impl::tls_set_dispatch_key_included(kBelow, false);
  at::SavedTensorDefaultHooks::set_tracing(saved_hooks_);
  c10::AutogradState::get_tls_state().set_multithreading_enabled(autograd_threads_);
  at::autocast::set_autocast_cache_enabled(autocast_cache_);
  tracer_.state().undo_writes();
}

const std::vector<GivenGrad>& Tracer::grads() const { return state_->grads; }
bool Tracer::has_written(const at::Tensor& real) const { return state_->is_written(real); }

bool Tracer::has_opaque_gradients() const { return state_->has_opaque_gradients; }

bool Tracer::has_drawn() const {
  const auto& calls = state_->trace.calls;
  return std::any_of(calls.begin(), calls.end(), [](const Call& call) { return draws(call); });
}

Captured Tracer::finish(const std::vector<at::Tensor>& outputs, OutputTree tree) {
  State& state = *state_;
  require(active_state() != &state, "finish() while the tracer listens");
  if (state.refusal) raise(*state.refusal);
  for (const at::Tensor& output : outputs) {
    const at::Tensor& traced = state.to_trace(output);
    if (as_trace(traced)->fillable) state.settle_fill(*as_trace(traced));
    const ValueId id = trace_value(traced);
    state.note_history(*as_trace(traced));
    if (state.origin(id) != Origin::Input)
      state.trace.values[id].type.requires_grad = output.requires_grad();
    state.trace.outputs.push_back(id);
  }
  state.settle_leaves(outputs);
  state.settle_alias_writes();
  state.settle_selections();
  state.trace.output_tree = std::move(tree);
  Captured captured;
  for (Lifted& lifted : state.lifted) captured.lifted.push_back(std::move(lifted.real));
  captured.data_reads = std::move(state.data_reads);
  captured.decisions = std::move(state.decisions);
  for (ConstantCopy& copy : state.copies)
    copy.written = state.is_written_id(state.trace.values[copy.copy].type.storage);
  for (const Input& input : state.trace.inputs)
    captured.writes_inputs |= state.is_written_id(state.trace.values[input.id].type.storage);
  captured.trace =
      normalise(std::move(state.trace), state.entry_mode.value_or(GradMode::NoGrad), state.copies);
  state.name_places(captured.trace);
  return captured;
}

bool is_trace_tensor(const at::Tensor& tensor) { return tensor.defined() && as_trace(tensor); }

ValueId trace_value(const at::Tensor& tensor) {
  const auto* trace = tensor.defined() ? as_trace(tensor) : nullptr;
  return trace ? trace->id : kNoValue;
}

std::string describe_trace_tensor(const at::Tensor& tensor) {
  return print_type(geometry_of(tensor, tensor.device()));
}

}  // namespace fulgurite
