// Trace tensors for real ones.
#include "capture/state.h"
#include "torch/dispatch_state.h"

namespace fulgurite {
namespace {

// What a tensor that cannot be represented in a trace is.
std::string foreign(const at::Tensor& tensor) {
  const c10::DispatchKeySet keys = tensor.key_set();
  if (keys.has(kMark)) return "a real tensor whose .data was set to a traced one";
  if (keys.has(c10::DispatchKey::Python)) return "a tensor subclass (FakeTensor, DTensor, ...)";
  if (keys.has_any(kFunctorchTensors)) return "a tensor that belongs to a torch.func transform";
  if (keys.has(c10::DispatchKey::NestedTensor)) return "a nested tensor";
  if (keys.has(c10::DispatchKey::Quantized)) return "a quantized tensor";
  if (tensor.layout() != c10::kStrided)
    return fmt::format("a tensor of layout {}", c10::str(tensor.layout()));
  return "a tensor without memory of its own";
}

uint64_t tag_of(uint64_t serial, StorageId id) {
  return serial << 32 | static_cast<uint32_t>(id + 1);
}

}  // namespace

const at::Tensor& Tracer::State::to_trace(const at::Tensor& tensor) {
  if (!tensor.defined() || is_number(tensor)) return tensor;
  if (auto* trace = as_trace(tensor)) {
    if (trace->owner != serial) [[unlikely]]
      tracer->refuse("a tensor of another capture was used here",
                     "return it from that capture, and use what is returned");
    if (trace->has_copies) [[unlikely]]
      follow_copies(*trace);
    return tensor;
  }
  const at::Tensor* lifted = find_lifted(tensor);
  return lifted ? *lifted : lift(tensor);
}

ValueId Tracer::State::id_of(const at::Tensor& tensor) { return as_trace(to_trace(tensor))->id; }

const at::Tensor* Tracer::State::find_lifted(const at::Tensor& real) const {
  const auto found = trace_of.find(real.unsafeGetTensorImpl());
  return found == trace_of.end() ? nullptr : &found->second;
}

const at::Tensor& Tracer::State::lift(const at::Tensor& real) {
  // It and the trace tensor in its place would be two leaves, with a part of the gradient each.
  if (real.requires_grad() && c10::GradMode::is_enabled() &&
      argument_of.count(real.unsafeGetTensorImpl()))
    tracer->refuse("a tensor that requires grad is an argument and is found elsewhere, too",
                   "use the argument itself in both places");
  require_plain(real);
  at::Tensor tensor = wrap(meta_like(real), real.device(), real.is_inference());
  const ValueId id = as_trace(tensor)->id;
  if (real.requires_grad()) {
    tensor.set_requires_grad(true);
    trace.values[id].type.requires_grad = true;
  }
  mark_input(id, InputKind::Constant);
  lifted.push_back({id, real, TensorSnapshot(real)});
  if (constants.contains(real.unsafeGetTensorImpl())) {
    tensor = record_internal(*this, "aten::clone", {tensor, c10::IValue()});
    copies.push_back({id, as_trace(tensor)->id});
  }
  return trace_of.emplace(real.unsafeGetTensorImpl(), std::move(tensor)).first->second;
}

// A copy that torch made (x.data, a saved variable) shares the number of the original; when either
// changes its geometry, the other is a view of it.
void Tracer::State::follow_copies(TraceTensorImpl& tensor) {
  const auto changed = retyped.find(tensor.id);
  if (changed == retyped.end()) return;
  const TensorType now = describe(tensor.meta(), tensor.real_device());
  const TensorType& then = changed->second;
  if (now.sizes == then.sizes && now.strides == then.strides && now.offset == then.offset &&
      now.storage == then.storage)
    return;
  if (now.storage != then.storage)
    tracer->refuse("a tensor was used whose memory was replaced through another name of it",
                   "avoid set_() and resize_() on a tensor that has aliases");
  Call call;
  call.op = find_op("aten::as_strided");
  call.mode = current_grad_mode();
  call.args = {Arg::of(tensor.id), Arg::literal(tensor.sizes()), Arg::literal(tensor.strides()),
               Arg::literal(tensor.storage_offset())};
  tensor.id = add_value(trace, now);
  call.results = {Arg::of(tensor.id)};
  add(std::move(call));
}

void Tracer::State::require_plain(const at::Tensor& tensor) {
  if (!tensor.key_set().has_any(kForeignKeys) && tensor.has_storage()) [[likely]]
    return;
  tracer->refuse(foreign(tensor) + " was met during capture",
                 "convert it to a plain dense tensor, or keep it out of the captured function");
}

StorageId Tracer::State::storage_id(const c10::Storage& meta) {
  const uint64_t tag = storage_tag(meta);
  if (tag >> 32 == (serial & 0xffffffff) && tag) return static_cast<StorageId>(tag) - 1;
  const StorageId id = trace.storages++;
  set_storage_tag(meta, tag_of(serial, id));
  return id;
}

TensorType Tracer::State::describe(const at::Tensor& meta, c10::Device device) {
  TensorType type = geometry_of(meta, device);
  type.storage = storage_id(meta.storage());
  return type;
}

at::Tensor Tracer::State::wrap(const at::Tensor& meta, c10::Device device, bool inference) {
  const ValueId id = add_value(trace, describe(meta, device));
  at::Tensor traced(TraceTensorImpl::make(meta, id, serial, device, inference));
  const auto storage = static_cast<size_t>(trace.values[id].type.storage);
  if (storage >= owners.size()) owners.resize(storage + 1);
  if (!owners[storage]) owners[storage].emplace(traced.getIntrusivePtr());
  if (any_layout) [[unlikely]]
    as_trace(traced)->hide_layout();
  return traced;
}

at::Tensor Tracer::State::meta_like(const at::Tensor& real) {
  auto [it, fresh] = twins.try_emplace(real.storage().unsafeGetStorageImpl());
  Twin& twin = it->second;
  if (fresh) twin = {real.storage(), make_meta_storage(real.storage().nbytes())};
  at::Tensor meta =
      make_meta(twin.meta, real.dtype(), real.sizes(), real.strides(), real.storage_offset());
  if (real.is_conj()) meta._set_conj(true);
  if (real.is_neg()) meta._set_neg(true);
  return meta;
}

void Tracer::State::mark_input(ValueId id, InputKind kind) {
  trace.inputs.push_back({id, kind, ""});
  set_origin(id, Origin::Input);
}

void Tracer::State::set_origin(ValueId id, Origin origin) {
  if (id >= static_cast<ValueId>(origins.size())) origins.resize(id + 1);
  origins[id] = origin;
}

bool Tracer::State::is_written(const at::Tensor& real) {
  if (!real.has_storage()) return false;
  // A constant of the program is written in its copy.
  const auto copied = trace_of.find(real.unsafeGetTensorImpl());
  if (copied != trace_of.end() && is_written_storage(as_trace(copied->second)->meta().storage()))
    return true;
  const auto twin = twins.find(real.storage().unsafeGetStorageImpl());
  return twin != twins.end() && is_written_storage(twin->second.meta);
}

bool Tracer::State::is_written_storage(const c10::Storage& meta) {
  return is_written_id(storage_id(meta));
}

bool Tracer::State::is_written_id(StorageId id) const {
  return id < static_cast<StorageId>(written.size()) && written[id];
}

void Tracer::State::undo_writes() {
  settle_fills();
  bool data_was_set = false;
  for (size_t i = lifted.size(); i-- > 0;) {
    const at::Tensor& real = lifted[i].real;
    const at::Tensor grad = real.requires_grad() && real.is_leaf() ? real.grad() : at::Tensor();
    if (grad.defined() && as_trace(grad)) grads.push_back({real, grad});
    data_was_set |= lifted[i].before.restore(real);
  }
  for (const Argument& argument : arguments) {
    const at::Tensor& leaf = argument.traced;
    const at::Tensor grad = leaf.is_leaf() ? leaf.grad() : at::Tensor();
    if (grad.defined() && as_trace(grad)) grads.push_back({leaf, grad});
  }
  if (data_was_set && !refusal)
    refusal = Unsupported(
        "the .data of a tensor that is no argument of the captured function was set to a traced "
        "tensor; use tensor.copy_(...) instead");
}

}  // namespace fulgurite
