// How the elements of a tensor lie in its memory.
#pragma once

#include "ir/types.h"

namespace fulgurite {

// No two elements share memory; sufficient, for a few odd strides not necessary.
bool is_injective(const TensorType& type);

}  // namespace fulgurite
