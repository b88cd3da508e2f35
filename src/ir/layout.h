// How the elements of a tensor lie in its memory.
#pragma once

#include "ir/types.h"

namespace fulgurite {

// No two elements share memory; sufficient, for a few odd strides not necessary.
bool is_injective(const TensorType& type);

// From the first element to the end of the last, in elements.
int64_t extent(const TensorType& type);

// Injective and without gaps.
bool is_dense(const TensorType& type);

}  // namespace fulgurite
