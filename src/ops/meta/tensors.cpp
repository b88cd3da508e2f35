#include "ops/meta/tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>

namespace fulgurite::meta {

Tensor strided(IntArrayRef sizes, IntArrayRef strides, ScalarType dtype) {
  return Tensor(at::detail::empty_strided_meta(sizes, strides, dtype));
}

Tensor empty(IntArrayRef sizes, ScalarType dtype, MemoryFormat format) {
  return Tensor(at::detail::empty_meta(sizes, dtype, format));
}

Tensor like(const Tensor& self, ScalarType dtype, MemoryFormat format) {
  if (format != MemoryFormat::Preserve) return empty(self.sizes(), dtype, format);
  if (self.is_non_overlapping_and_dense()) return strided(self.sizes(), self.strides(), dtype);
  return strided(self.sizes(), at::infer_dense_strides(self.sizes(), self.strides()), dtype);
}

Tensor view(const Tensor& self, IntArrayRef sizes, IntArrayRef strides, int64_t offset) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(self.storage()), self.key_set(), self.dtype());
  impl->set_sizes_and_strides(sizes, strides, offset);
  return Tensor(std::move(impl));
}

Tensor contiguous(const Tensor& self, MemoryFormat format) {
  return self.is_contiguous(format) ? self : empty(self.sizes(), self.scalar_type(), format);
}

Tensor to(const Tensor& self, ScalarType dtype) {
  return self.scalar_type() == dtype ? self : like(self, dtype);
}

}  // namespace fulgurite::meta
