// What decides which compiled entry serves a call: the types and aliasing of its tensors, and the
// ambient state of torch. Two calls with equal keys may share an entry.
#pragma once

#include <cstdint>

#include <ATen/ATen.h>
#include <c10/util/SmallVector.h>

namespace fulgurite {

using Key = c10::SmallVector<uint64_t, 48>;

// Dtype, device, dispatch keys, sizes, strides, requires_grad; not the offset, not the data.
void append_tensor(Key& key, const at::TensorImpl& tensor);

// The same, with the place in its storage: for programs that use it (as_strided on an input).
void append_offset(Key& key, const at::TensorImpl& tensor);

// Which of the tensors share a storage or are the same tensor.
void append_aliasing(Key& key, c10::ArrayRef<const at::TensorImpl*> tensors);

// Grad mode, inference mode, autocast, default dtype, deterministic algorithms, the choice of
// attention and convolution kernels.
void append_ambient(Key& key);

uint64_t hash(const Key& key);

// The type of a tensor that an entry holds on to: it may be changed in place between calls.
struct TensorGuard {
  Key type;
  explicit TensorGuard(const at::Tensor& tensor);
  bool holds(const at::Tensor& tensor) const;
};

}  // namespace fulgurite
