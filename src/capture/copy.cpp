// copy.deepcopy of a tensor, which torch does on storages, as operators.
#include "capture/state.h"

namespace fulgurite {
namespace {

// Every element of the memory is one of the tensor's.
bool covers_its_storage(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 && tensor.is_non_overlapping_and_dense() &&
         static_cast<size_t>(tensor.numel()) * tensor.element_size() == tensor.storage().nbytes();
}

at::Tensor copy_with_memory(const at::Tensor& tensor) {
  if (covers_its_storage(tensor)) return tensor.clone(at::MemoryFormat::Preserve);
  const auto elements = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
  return tensor.as_strided({elements}, {1}, 0)
      .clone()
      .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

// Another tensor in the memory of a copy.
at::Tensor copy_within(const at::Tensor& tensor, const Copy& other) {
  if (tensor.scalar_type() != other.original.scalar_type())
    active_state()->tracer->refuse(
        "copies tensors of several dtypes that share memory, which is to be shared again",
        "copy them outside of the compiled function");
  return other.copy.detach().as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

bool share_memory(const at::Tensor& a, const at::Tensor& b) {
  Tracer::State& state = *active_state();
  const auto meta = [&](const at::Tensor& t) { return as_trace(state.to_trace(t))->meta(); };
  return meta(a).is_alias_of(meta(b));
}

}  // namespace

at::Tensor copy_of(const at::Tensor& tensor, const std::vector<Copy>& others) {
  if (!tensor.is_leaf())
    user_error(
        "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
        "at the moment: copy the tensor with .detach().clone()");
  at::Tensor copy;
  {
    at::NoGradGuard no_grad;
    const auto other = std::ranges::find_if(
        others, [&](const Copy& one) { return share_memory(one.original, tensor); });
    copy = other == others.end() ? copy_with_memory(tensor) : copy_within(tensor, *other);
  }
  return tensor.requires_grad() ? copy.set_requires_grad(true) : copy;
}

}  // namespace fulgurite
