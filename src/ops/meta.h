// Result types of operators whose torch meta kernel is written in Python.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace fulgurite {

// Our own rule for `op`: called boxed with meta tensors, it leaves meta tensors with the sizes,
// strides and dtypes that the CPU kernel would give. Null where torch's C++ kernel is to be used.
const c10::KernelFunction* meta_rule(const c10::OperatorHandle& op);

}  // namespace fulgurite
