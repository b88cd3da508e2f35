// Invariants of a trace, and equality of two.
#pragma once

#include <string>

#include "ir/trace.h"

namespace fulgurite {

// Throws InternalError, naming the call and `after` (the pass that made the trace), when the trace
// is not well formed: a value used before it is made or after it is freed, made twice, or made in
// a body and used outside; a body that uses what its call does not get, or does not make its
// call's results; arguments that do not fit the schema; a write to an input's memory before the
// epilogue, where there is one; outputs and tree that disagree; numbers out of range.
void verify(const Trace& trace, const std::string& after);

// "" when both are the same program: operators, overloads, arguments, result types, aliasing, grad
// mode, structure of the outputs; not bodies, names, numbers, source lines, executors, frees or
// provenance. A region stands for the calls in it. Whether a value requires grad counts for inputs
// and outputs: in between it follows, and differs where a call ran inside of another one, below
// autograd. Otherwise what differs first.
std::string difference(const Trace& a, const Trace& b);
inline bool same_program(const Trace& a, const Trace& b) { return difference(a, b).empty(); }

}  // namespace fulgurite
