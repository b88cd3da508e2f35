// Meta tensors for the results of rules, made without the dispatcher.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace fulgurite::meta {

using at::IntArrayRef;
using at::MemoryFormat;
using at::ScalarType;
using at::Tensor;

// A fresh tensor of this geometry, as at::empty_strided and at::empty give.
Tensor strided(IntArrayRef sizes, IntArrayRef strides, ScalarType dtype);
Tensor empty(IntArrayRef sizes, ScalarType dtype, MemoryFormat format = MemoryFormat::Contiguous);

// As at::empty_like: by default the strides of a dense tensor, and of any other one the same order
// of dimensions without gaps.
Tensor like(const Tensor& self, ScalarType dtype, MemoryFormat format = MemoryFormat::Preserve);
inline Tensor like(const Tensor& self, MemoryFormat format = MemoryFormat::Preserve) {
  return like(self, self.scalar_type(), format);
}
// As at::empty_like with row-major strides.
inline Tensor contiguous_like(const Tensor& self) {
  return empty(self.sizes(), self.scalar_type());
}

// A tensor on `self`'s storage.
Tensor view(const Tensor& self, IntArrayRef sizes, IntArrayRef strides, int64_t offset);
inline Tensor view(const Tensor& self, IntArrayRef sizes, IntArrayRef strides) {
  return view(self, sizes, strides, self.storage_offset());
}

// As Tensor::contiguous: `self` itself where it is contiguous already.
Tensor contiguous(const Tensor& self, MemoryFormat format = MemoryFormat::Contiguous);

// As Tensor::to(dtype): `self` itself where it has that dtype.
Tensor to(const Tensor& self, ScalarType dtype);

inline bool defined(const std::optional<Tensor>& tensor) {
  return tensor.has_value() && tensor->defined();
}

}  // namespace fulgurite::meta
