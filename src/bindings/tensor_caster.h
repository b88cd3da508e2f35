// torch.Tensor <-> at::Tensor for nanobind.
#pragma once

#include <nanobind/nanobind.h>

#include "bindings/python_tensor.h"

namespace nanobind::detail {
template <>
struct type_caster<at::Tensor> {
  NB_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    if (!fulgurite::is_python_tensor(src.ptr())) return false;
    value = fulgurite::tensor_of(src.ptr());
    return true;
  }
  static handle from_cpp(const at::Tensor& tensor, rv_policy, cleanup_list*) noexcept {
    return fulgurite::wrap_tensor(tensor);
  }
};
}  // namespace nanobind::detail
