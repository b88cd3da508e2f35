// What is in a key, in a form that can be printed and compared.
#pragma once

#include <nanobind/nanobind.h>

#include "runtime/guard_key.h"

namespace fulgurite {

namespace nb = nanobind;

// The words of one tensor, see append_tensor(), as (dtype, device, sizes, strides, requires_grad,
// dispatch keys).
nb::tuple describe_key(const Key& words);

// The words of append_aliasing() as (i, j, None for the same tensor, else how far its place in
// the storage is from that of j).
nb::list describe_aliasing(const Key& words);

}  // namespace fulgurite
