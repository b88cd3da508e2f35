// Executors whose claims and functions are Python's.
#pragma once

#include <nanobind/nanobind.h>

#include "ir/executor.h"

namespace fulgurite {

// claims(call) -> "" or a reason; lower(call) -> function(*tensors) -> a tensor or several.
struct UserExecutor : Executor {
  nanobind::callable ask, make;
  bool differentiable = false;
};

// The record for one compilation, from a Python Executor.
Executor executor_of(nanobind::handle given);

void bind_user_executor(nanobind::module_& m);

}  // namespace fulgurite
