// Trace → Trace, one file a pass.
#pragma once

#include <span>
#include <vector>

#include "ir/executor.h"
#include "ir/trace.h"

namespace fulgurite {

// The same computation without writes, then an epilogue that writes the final values to inputs
// and makes the outputs that alias one. Strides and aliasing of outputs are those of `trace`.
Trace functionalise(const Trace& trace);

// Without calls whose results are not used and that have no effect.
Trace dead_code(const Trace& trace);

// One call for equal calls on equal arguments. Effects, random draws, values that are written and
// results whose merging could be seen (two outputs that would alias) stay.
Trace common_subexpressions(const Trace& trace);

// Calls on constants alone that can be computed now; identities (x.to(x.dtype), view to the same
// sizes) where neither values, strides nor aliasing change.
Trace fold(const Trace& trace);

// Every call given to the first executor that claims it; what was asked is added to `decisions`.
Trace place(const Trace& trace, std::span<const Executor> executors,
            std::vector<Decision>* decisions = nullptr);

// Every value freed after its last use.
Trace delete_last_used(const Trace& trace);

}  // namespace fulgurite
