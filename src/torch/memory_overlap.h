// Whether two tensors have memory in common.
#pragma once

#include <ATen/core/Tensor.h>

namespace fulgurite {

// Exact for strided tensors, gaps between their elements included, unlike
// at::get_overlap_status(); true where it cannot be told in a bounded number of steps.
bool have_common_memory(const at::Tensor& one, const at::Tensor& other);

// Whether element [i] of one is element [i] of the other, for all i.
bool have_same_elements(const at::Tensor& one, const at::Tensor& other);

}  // namespace fulgurite
