// Where the dispatcher meets the tracer.
#include "torch/fallbacks.h"

#include "capture/state.h"
#include "torch/dispatch_state.h"

namespace fulgurite {
namespace {

using torch::jit::Stack;

thread_local Tracer::State* active = nullptr;

bool any_traced(const c10::OperatorHandle& op, const Stack& stack) {
  bool found = false;
  const auto arguments = torch::jit::last(stack, op.schema().arguments().size());
  for_each_tensor(arguments, [&](const at::Tensor& t) { found |= as_trace(t) != nullptr; });
  return found;
}

// Torch makes a real tensor of Python or NumPy data: those calls are real.
bool makes_real_data(const DispatchState& state, const c10::OperatorHandle& op,
                     const Stack& stack) {
  return fills_real_memory(state) && !any_traced(op, stack);
}

// Such a call is run for what it calls in turn, which comes back here and is recorded.
bool runs_as_its_parts(c10::DispatchKeySet keys, const DispatchState& state, const OpInfo& info) {
  // An operator with an autocast rule casts its arguments and calls itself without autocast; in one
  // that is only a program of others, these do.
  if (keys.has_any(c10::autocast_dispatch_keyset) && info.autocast_kernel) return true;
  if (info.composite && autocast_active(state)) return true;
  // Tangents, and the zeros without memory that stand for those that are not there.
  return info.forward_ad || keys.has(c10::DispatchKey::ZeroTensor);
}

// A formula of autograd takes the conjugate of a Python number: a number again, rather than a view
// of memory that no value of the trace has.
bool is_view_of_number(const c10::OperatorHandle& op, const OpInfo& info, const Stack& stack) {
  if (!info.facts->is_view) return false;
  bool any = false, all = true;
  for_each_tensor(torch::jit::last(stack, op.schema().arguments().size()),
                  [&](const at::Tensor& t) {
                    any = true;
                    all &= is_number(t);
                  });
  return any && all;
}

void make_number(const c10::OperatorHandle& op, const OpInfo& info, Stack* stack) {
  const CaptureOff off;
  op.callBoxed(stack);
  for (auto value = stack->end() - info.returns; value != stack->end(); ++value)
    if (value->isTensor() && value->toTensor().dim() == 0) {
      const at::Tensor number = value->toTensor().resolve_conj().resolve_neg().clone();
      number.unsafeGetTensorImpl()->set_wrapped_number(true);
      *value = number;
    }
}

void above(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (!active) {
    op.redispatchBoxed(keys & strictly_below(kAbove), stack);
    return;
  }
  if (active->selecting) [[unlikely]]
    return active->end_selection(op, stack);
  const c10::DispatchKeySet below = keys & strictly_below(kMark);
  const DispatchState state = dispatch_state();
  // This key stays on meanwhile, so that what a transform calls in turn comes back here.
  if (functorch_active(state) || makes_real_data(state, op, *stack)) {
    op.redispatchBoxed(below, stack);
    return;
  }
  if (dispatch_mode_active(state))
    active->tracer->refuse(
        "a TorchDispatchMode (FakeTensorMode, make_fx, torch.compile, ...) was entered during "
        "capture",
        "enter it around the captured function's parts that are not captured");
  const OpInfo& info = op_info(op);
  if (is_view_of_number(op, info, *stack)) [[unlikely]]
    return make_number(op, info, stack);
  if (active->keep_constant(op, info, stack) || active->read_data(op, info, stack)) return;
  if (runs_as_its_parts(below, state, info)) {
    const auto first_value = static_cast<ValueId>(active->trace.values.size());
    op.redispatchBoxed(below, stack);
    active->note_results(info, *stack, first_value);
    return;
  }
  active->run_frame(op, info, below, stack);
}

// A trace tensor came to the dispatcher, and nothing listens above.
void mark(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (!active && !inferring())
    raise(Unsupported(fmt::format(
        "{} was called on a tensor of a capture that has ended, or that runs on another thread; "
        "return the tensor from the captured function instead of keeping it",
        op.schema().name())));
  op.redispatchBoxed(keys & strictly_below(kMark), stack);
}

// A meta kernel makes a meta tensor: no argument says so to the dispatcher.
bool makes_meta(const c10::OperatorHandle& op, const Stack& stack) {
  const OpInfo& info = op_info(op);
  if (info.facts->device_arg < 0) return false;
  const c10::IValue& device = torch::jit::peek(stack, info.facts->device_arg, info.arguments);
  return device.isDevice() && device.toDevice().is_meta();
}

void below(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const c10::DispatchKeySet rest = keys & strictly_below(kBelow);
  if (inferring()) {
    if (rest.has_backend(c10::BackendComponent::MetaBit))
      call_meta_kernel(op, rest, stack);
    else if (makes_meta(op, *stack))
      call_meta_kernel(op, c10::DispatchKeySet(c10::DispatchKey::Meta), stack);
    else
      op.redispatchBoxed(rest, stack);
    return;
  }
  if (!active || makes_real_data(dispatch_state(), op, *stack)) {
    op.redispatchBoxed(rest, stack);
    return;
  }
  const OpInfo& info = op_info(op);
  if (info.decomposes)
    op.redispatchBoxed(rest, stack);
  else if (!active->read_data(op, info, stack))
    active->record(op, info, stack);
}

const bool registered = [] {
  register_fallbacks(c10::BoxedKernel::makeFromFunction<&above>(),
                     c10::BoxedKernel::makeFromFunction<&mark>(),
                     c10::BoxedKernel::makeFromFunction<&below>());
  return true;
}();

}  // namespace

Tracer::State* active_state() { return active; }
void set_active_state(Tracer::State* state) { active = state; }

}  // namespace fulgurite
