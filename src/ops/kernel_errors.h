// What ATen's kernels raise whatever the elements are: for dtypes that they are not written for,
// for numbers that a dtype has no room for. Meta kernels, which capture relies on, do not look.
#pragma once

#include <string>

#include "ir/trace.h"

namespace fulgurite {

// What ATen raises for a call of these dtypes, ranks and constants, on the CPU; "" if nothing, and
// of operators that no rule of the catalogue says how to run on few elements. It is asked: the call
// is run on single elements, once for all calls like it. For any thread, within capture or not.
std::string error_of_kernels(const Trace& trace, const Call& call);

// Whether there is such an error, or one that depends on the elements of integers: a division by 0.
bool may_raise(const Trace& trace, const Call& call);

}  // namespace fulgurite
