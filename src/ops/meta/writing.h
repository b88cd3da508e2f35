// Rules of operators that write, from the rules of their functional forms.
#pragma once

#include <optional>

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "ops/meta/tensors.h"

namespace fulgurite::meta {

// What a kernel does to an out= argument that is to hold `result`: resizes it where it has another
// size, and otherwise leaves its strides as they are.
void take_geometry(const at::Tensor& out, const at::Tensor& result);

// Where the functional form of `op` has a rule: a kernel that infers its results, resizes out=
// arguments that have another size, and hands the written arguments back. In place, the results
// must have the argument's size. Nothing for operators that do not write.
std::optional<c10::KernelFunction> rule_for_writes(const c10::OperatorHandle& op);

}  // namespace fulgurite::meta
