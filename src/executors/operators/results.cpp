#include "executors/operators/results.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>

#include "ir/print.h"

namespace fulgurite {
namespace {

bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && !tensor.unsafeGetTensorImpl()->is_python_dispatch();
}

TensorType type_of_plain(const at::Tensor& tensor) {
  TensorType type;
  type.dtype = tensor.scalar_type();
  type.device = tensor.device();
  type.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  type.strides.assign(tensor.strides().begin(), tensor.strides().end());
  type.requires_grad = tensor.requires_grad();
  type.conj = tensor.is_conj();
  type.neg = tensor.is_neg();
  return type;
}

bool shares_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() && b.numel() && a.storage().is_alias_of(b.storage());
}

int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<int64_t>(tensor._version());
}

}  // namespace

bool has_layout(const TensorType& type, const at::Tensor& tensor) {
  if (tensor.scalar_type() != type.dtype || tensor.device() != type.device ||
      tensor.sizes() != c10::IntArrayRef(type.sizes) || tensor.is_conj() != type.conj ||
      tensor.is_neg() != type.neg)
    return false;
  if (tensor.numel() == 0) return true;
  for (size_t d = 0; d < type.sizes.size(); ++d)
    if (type.sizes[d] != 1 && tensor.strides()[d] != type.strides[d]) return false;
  return true;
}

namespace {

std::string difference_from(const TensorType& type, const at::Tensor& tensor) {
  if (tensor.defined() && is_plain(tensor) && has_layout(type, tensor) &&
      tensor.requires_grad() == type.requires_grad)
    return "";
  const std::string expected = print_type(type);
  if (!tensor.defined()) return fmt::format("None, expected \"{}\"", expected);
  if (!is_plain(tensor)) return fmt::format("no plain strided tensor, expected \"{}\"", expected);
  return fmt::format("\"{}\", expected \"{}\"", print_type(type_of_plain(tensor)), expected);
}

}  // namespace

std::string fault_of_results(const std::vector<TensorType>& types,
                             const std::vector<at::Tensor>& arguments,
                             const std::vector<at::Tensor>& results) {
  if (results.size() != types.size())
    return fmt::format("{} tensors, expected {}", results.size(), types.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (const std::string fault = difference_from(types[i], results[i]); !fault.empty())
      return fmt::format("result {} is {}", i, fault);
    for (size_t k = 0; k < arguments.size(); ++k)
      if (shares_memory(results[i], arguments[k]))
        return fmt::format("result {} shares memory with argument {}; return a new tensor", i, k);
    for (size_t k = 0; k < i; ++k)
      if (shares_memory(results[i], results[k]))
        return fmt::format("results {} and {} share memory; return new tensors", k, i);
  }
  return "";
}

at::Tensor owned(at::Tensor tensor) {
  if (tensor.numel() == 0 || tensor.is_conj() || tensor.is_neg()) return tensor;
  at::Tensor alone = tensor;
  if (!tensor.requires_grad()) {
    const at::AutoDispatchBelowADInplaceOrView below;  // no view that holds on to its base
    alone = at::alias(tensor);
  }
  tensor.reset();  // and its Python object, unless others have it
  if (alone.storage().use_count() == 1) return alone;
  return at::empty_strided(alone.sizes(), alone.strides(), alone.options()).copy_(alone);
}

Versions::Versions(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) before_.push_back(version_of(tensor));
}

int Versions::first_changed(const std::vector<at::Tensor>& tensors) const {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (version_of(tensors[i]) != before_[i]) return static_cast<int>(i);
  return -1;
}

}  // namespace fulgurite
