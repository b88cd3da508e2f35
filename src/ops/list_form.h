// Operators on lists of tensors that are one operator on each of them.
#pragma once

#include <optional>

#include <ATen/core/dispatch/Dispatcher.h>

namespace fulgurite {

// The operator that `op`, which writes nothing, is for each place of its lists ("mul.Scalar" for
// "_foreach_mul.ScalarList"), which is how ATen computes it on the CPU. Its first arguments are
// those of `op`, in order, an element for each list; what it takes besides has defaults. Nothing
// where there is none, or none that maps elements.
const std::optional<c10::OperatorHandle>& form_of_each(const c10::OperatorHandle& op);

}  // namespace fulgurite
