// One operator call above autograd, with the primitives it runs as its body.
#include <torch/csrc/autograd/functions/tensor.h>

#include "capture/probe.h"
#include "capture/state.h"
#include "ir/rename.h"
#include "ops/named_ops.h"
#include "torch/dispatch_state.h"
#include "torch/operator_kernels.h"

namespace fulgurite {
namespace {

bool same_constant(const c10::IValue& a, const c10::IValue& b) {
  if (a.isNone() || b.isNone()) return a.isNone() && b.isNone();
  if (a.isInt() && b.isInt()) return a.toInt() == b.toInt();
  if (a.isBool() && b.isBool()) return a.toBool() == b.toBool();
  if (a.isTensor() || b.isTensor()) return a.isTensor() && b.isTensor() && a.is(b);
  if (a.isIntList() && b.isIntList()) return a.toIntVector() == b.toIntVector();
  return a.tagKind() == b.tagKind() && a == b;
}

bool same_results(const std::vector<Arg>& a, const std::vector<Arg>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].kind != b[i].kind || a[i].values != b[i].values) return false;
  return true;
}

bool same_geometry(const TensorType& a, const TensorType& b) {
  return a.sizes == b.sizes && a.strides == b.strides && a.offset == b.offset &&
         a.storage == b.storage;
}

[[noreturn]] void refuse_storage(const c10::OperatorHandle& op) {
  active_state()->tracer->refuse(
      fmt::format("{} works on the storage of a tensor", op.schema().name()),
      "use the tensor itself: clone() to copy it, set_() with a tensor to share its memory");
}

// Such a call may fail when it has written to some, and not to others.
bool writes_several(const OpInfo& info, const Call& call) {
  for (int i : info.facts->written)
    if (call.args[i].values.size() > 1) return true;
  return false;
}

// Opens a frame for as long as it lives.
class OpenFrame {
 public:
  OpenFrame(Tracer::State& state, Frame& frame) : state_(state), frame_(frame) {
    frame_.parent = state_.frame;
    state_.frame = &frame_;
  }
  ~OpenFrame() { close(); }
  void close() { state_.frame = frame_.parent; }

 private:
  Tracer::State& state_;
  Frame& frame_;
};

}  // namespace

void Frame::open_primitive() {
  if (!primitive) return;
  primitive = false;
  Call& part = call.body.emplace_back();
  part.op = call.op;
  part.args = call.args;
  part.results = std::move(primitive_results);
  part.retyped = call.retyped;
  part.mode = call.mode;
}

bool Tracer::State::is_frame_itself(const c10::OperatorHandle& op, const c10::IValue* arguments) {
  if (frame->op != operator_identity(op) || frame->primitive || !frame->call.body.empty())
    return false;
  const auto& args = frame->call.args;
  for (size_t i = 0; i < args.size(); ++i) {
    const c10::IValue& value = arguments[i];
    if (args[i].kind == Arg::Kind::Constant) {
      const bool undefined = value.isTensor() && !value.toTensor().defined();
      if (!same_constant(args[i].constant, undefined ? c10::IValue() : value)) return false;
      continue;
    }
    size_t at = 0;
    bool same = true;
    const auto compare = [&](const c10::IValue& element) {
      const bool defined = element.isTensor() && element.toTensor().defined();
      const ValueId id = defined ? id_of(element.toTensor()) : kNoValue;
      same = same && at < args[i].values.size() && args[i].values[at++] == id;
    };
    if (value.isTensor()) {
      compare(value);
    } else if (value.isSymFloat()) {
      same = args[i].values[at++] == number_behind(value);
    } else if (is_tensor_sequence(value)) {
      for (const c10::IValue& element : value.toListRef()) compare(element);
    }
    if (!same || at != args[i].values.size()) return false;
  }
  return true;
}

void Tracer::State::run_frame(const c10::OperatorHandle& op, const OpInfo& info,
                              c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto to_id = [&](const at::Tensor& t) {
    auto* traced = as_trace(to_trace(t));
    if (traced->fillable) [[unlikely]]
      settle_fill(*traced);
    note_history(*traced);
    return traced->id;
  };
  const size_t first = stack->size() - info.arguments;
  Frame opened;
  Call& call = opened.call;
  call.op = info.recorded_as.value_or(op);
  call.mode = current_grad_mode();
  call.args.reserve(info.arguments);
  for (size_t i = first; i < stack->size(); ++i) {
    if ((*stack)[i].isStorage()) refuse_storage(op);
    call.args.push_back(to_arg((*stack)[i], to_id));
  }
  if (!frame) {
    note_place(call);
    check_on_ones(*this, info, call);
  }
  const bool was_refused = refusal.has_value();
  opened.op = operator_identity(op);
  opened.first_value = static_cast<ValueId>(trace.values.size());
  if (!frame) {
    wanted_data.reset();
    inference_failed = false;
  }
  // What a composite operator asks of its arguments may be known without their data after all.
  torch::jit::Stack again;
  if (info.composite || info.has_out) again.assign(stack->begin() + first, stack->end());
  {
    OpenFrame open(*this, opened);
    try {
      BelowOnly below;
      op.redispatchBoxed(keys, stack);
    } catch (const std::exception& error) {
      open.close();
      const bool looks = wanted_data || is_missing_data(error);
      if (!frame && !was_refused && (looks || inference_failed)) {
        stack->resize(first);
        if (record_whole(op, info, call, again, stack)) return;
        if (looks) refuse_data(call);
        refuse_other_error(call, error.what());
      }
      // The program may catch the error; what ran before it has happened.
      if (!frame && !refusal && writes_several(info, call))
        refusal = refusal_of(fmt::format("{} fails, perhaps after it wrote to some of its tensors, "
                                         "and the error is caught",
                                         call.op.name()),
                             "check its arguments before the call");
      opened.open_primitive();
      splice(call);
      throw;
    }
  }
  if (wanted_data && !frame && !refusal) refusal = wanted_data;  // swallowed by a kernel
  call.results.reserve(info.returns);
  for (size_t i = first; i < stack->size(); ++i)
    call.results.push_back(to_arg((*stack)[i], [&](const at::Tensor& t) { return id_of(t); }));
  if (opened.primitive && !same_results(call.results, opened.primitive_results))
    opened.open_primitive();
  settle_results(call, opened.first_value);
  note_results(info, *stack, opened.first_value);
  if (frame) {
    frame->open_primitive();
    frame->call.body.push_back(std::move(call));
  } else {
    trace.calls.push_back(std::move(call));
  }
}

// A result whose geometry the body changed in place is made with the one that it has in the end:
// in the body, another value stands for it until then.
void Tracer::State::settle_results(Call& call, ValueId first_value) {
  if (retyped.empty() || call.body.empty()) [[likely]]
    return;
  for_each_value(call.results, [&](ValueId id) {
    const auto changed = retyped.find(id);
    if (id < first_value || changed == retyped.end()) return;
    const TensorType before = trace.values[id].type;
    if (same_geometry(before, changed->second)) return;
    const ValueId inner = add_value(trace, before);
    Renaming renaming(trace.values.size());
    renaming.set(id, inner);
    for (Call& part : call.body) renaming.apply(part);
    trace.values[id].type = changed->second;
    Call& part = call.body.emplace_back();
    part.op = named_ops().alias;
    part.args = {Arg::of(inner)};
    part.results = {Arg::of(id)};
    part.mode = call.mode;
  });
}

void Tracer::State::note_results(const OpInfo& info, const torch::jit::Stack& stack,
                                 ValueId first_value) {
  for (const c10::IValue& value : torch::jit::last(stack, info.returns))
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      const auto found = as_trace(tensor) ? &tensor : find_lifted(tensor);
      if (!found) return;
      const ValueId id = as_trace(*found)->id;
      if (!frame && info.writes && tensor.requires_grad()) note_alias(tensor);
      if (!frame && info.facts->is_view && tensor.is_view()) note_base(id, tensor);
      if (origin(id) == Origin::Input) return;
      bool& requires_grad = trace.values[id].type.requires_grad;
      requires_grad = tensor.requires_grad() || (requires_grad && id < first_value);
      if (!frame) set_origin(id, Origin::Result);
    });
}

void Tracer::State::note_base(ValueId view, const at::Tensor& tensor) {
  const at::Tensor base(tensor._base());
  if (!is_number(base)) bases[view] = id_of(base);
}

void Tracer::State::note_alias(const at::Tensor& written) {
  if (!as_trace(written)) return;
  const at::Tensor base = written.is_view() ? at::Tensor(written._base()) : written;
  const TraceTensorImpl& known = *as_trace(to_trace(base));
  const StorageId storage = storage_id(known.meta().storage());
  const auto& owner = owners.at(static_cast<size_t>(storage));
  if (!owner || owner->_unsafe_get_target() == &known) return;
  Unsupported error = refusal_of(
      "values that require grad are written to memory through detach() or .data, which gives the "
      "other tensors in that memory no gradient",
      "write under torch.no_grad(), or to the tensor itself");
  // A copy that torch made for .data goes by the number of its original.
  const auto* original = static_cast<const TraceTensorImpl*>(owner->_unsafe_get_target());
  if (owner->use_count() && original->id == known.id) {
    if (!refusal) refusal = error;
    raise(error);
  }
  alias_writes.push_back({storage, known.id, trace.calls.size(), std::move(error)});
}

// A write to a view gives its base a history, and a write to the base gives one to its views.
bool Tracer::State::has_written_history(const torch::autograd::AutogradMeta& meta) {
  using torch::autograd::DifferentiableViewMeta;
  const auto* view = meta.is_view_ ? static_cast<const DifferentiableViewMeta*>(&meta) : nullptr;
  if (!view || !view->has_bw_view())
    return meta.grad_fn_ && dynamic_cast<torch::autograd::CopySlices*>(meta.grad_fn_.get());
  const at::Tensor& base = view->get_backward_view().base_;
  if (!as_trace(base)) return true;  // it was written
  if (trace.values[as_trace(base)->id].type.requires_grad) return true;
  const auto* of_base = torch::autograd::impl::get_autograd_meta(base);
  return of_base && has_written_history(*of_base);
}

void Tracer::State::note_history(const TraceTensorImpl& tensor) {
  bool& known = trace.values[tensor.id].type.requires_grad;
  if (known || !tensor.requires_grad()) [[likely]]
    return;
  if (origin(tensor.id) == Origin::Input) return;  // it was written
  const auto* meta = static_cast<torch::autograd::AutogradMeta*>(tensor.autograd_meta());
  if (meta->grad_fn_ || meta->is_view_)
    if (has_written_history(*meta)) return;
  if (!meta->grad_fn_) return note_leaf(tensor.id);
  if (origin(tensor.id) == Origin::Inner)
    known = true;  // saved for a backward pass that is recorded itself
  else
    tracer->refuse(
        fmt::format("a torch::autograd::Function written in C++, or one inside of a torch.func "
                    "transform ({}), was applied to a tensor that requires grad",
                    meta->grad_fn_->name()),
        "call it outside of the captured function, make it an operator with an autograd kernel, or "
        "capture under torch.no_grad()");
}

void Tracer::State::splice(Call& call) {
  for (Call& part : call.body) {
    part.source = call.source;
    part.module = call.module;
    (frame ? frame->call.body : trace.calls).push_back(std::move(part));
  }
}

}  // namespace fulgurite
