// The kernels an operator has for a dispatch key, the shadowed ones too.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace fulgurite {

struct Kernels {
  // The newest one that is written in C++, null if there is none.
  const c10::KernelFunction* cpp = nullptr;
  // The one in use is written in Python. (`import torch` puts Python kernels over some 1300 C++
  // ones at the Meta key.)
  bool python_in_use = false;
};

// Reads members that torch keeps private; a torch that renames them does not compile.
Kernels kernels_at(const c10::OperatorHandle& op, c10::DispatchKey key);

// The identity of an operator, cheap to hash.
const void* operator_identity(const c10::OperatorHandle& op);

}  // namespace fulgurite
