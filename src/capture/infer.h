// Result types by meta kernels, outside of any capture.
#pragma once

#include <map>
#include <string>

#include "ir/trace.h"

namespace fulgurite {

// Replaces the arguments on `meta` (meta tensors, numbers) by the results of `op`'s meta kernel:
// our own rule, torch's C++ kernel, or torch's Python one, in this order.
void infer(const c10::OperatorHandle& op, torch::jit::Stack* meta);

// Adds a call to `trace` (at the end of `calls`) with results inferred: views and arguments handed
// back keep their storages and numbers. Mode, source and module are the caller's to set.
Call& emit(Trace& trace, const c10::OperatorHandle& op, std::vector<Arg> args);

// The same, for an operator with one tensor result.
ValueId emit1(Trace& trace, const c10::OperatorHandle& op, std::vector<Arg> args);

// How often a meta kernel written in Python has been called on this thread, by operator
// ("aten::add.Tensor").
const std::map<std::string, int64_t>& python_meta_calls();

}  // namespace fulgurite
