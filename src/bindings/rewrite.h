// A trace made from another, by running that one again with changes.
#pragma once

#include <string>
#include <vector>

#include "bindings/bound_trace.h"
#include "capture/tracer.h"

namespace fulgurite {

// Runs `trace` again and records what runs. `rule(call, *arguments)` is asked for each call; what
// it returns takes the place of the call's results, and NotImplemented keeps the call; a dict of
// values and tensors may also replace, from there on, values that were made before. Calls keep
// their source line, module and executor, and those that the rule makes get the ones of the call
// that it was asked for; values that stand for those of `trace` keep their numbers.
// Throws UserError for a rule that returns something else, or brings in tensors from outside.
Trace rewrite(TracePtr trace, nb::callable rule);

// The same inputs, and what `program(*inputs)` runs in place of the calls; it returns the tensors
// that are the outputs.
Trace retrace(TracePtr trace, nb::callable program);

// The trace with these of its calls, in this order. It is not verified.
Trace with_calls(TracePtr trace, nb::iterable calls);

}  // namespace fulgurite
