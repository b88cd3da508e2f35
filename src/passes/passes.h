// Trace → Trace, one file a pass.
#pragma once

#include <span>
#include <unordered_set>
#include <vector>

#include "ir/executor.h"
#include "ir/trace.h"

namespace fulgurite {

// Under no_grad where autograd has no part although tensors require grad: all that touches them
// runs without it, as in the step of an optimiser. Not where lists are written as a whole.
Trace drop_grad_mode(const Trace& trace);

// The same computation without writes, then an epilogue that writes the final values to inputs
// and makes the outputs that alias one. Strides and aliasing of outputs are those of `trace`. An
// operator without a functional form, or one that draws random numbers in the order of unusual
// strides, still writes, to copies of its own. A trace whose outputs or written inputs carry
// gradients comes back as it is, with no epilogue.
Trace functionalise(const Trace& trace);

// One call for each place of a list where ATen computes them one by one, too: torch._foreach_mul()
// and the like on the CPU.
Trace split_lists(const Trace& trace);

// Without calls whose results are not used and that have no effect.
Trace dead_code(const Trace& trace);

// One call for equal calls on equal arguments; those that make what is in `apart` only with each
// other. Effects, random draws, values that are written and
// results whose merging could be seen (two outputs that would alias) stay.
Trace common_subexpressions(const Trace& trace, const std::unordered_set<ValueId>& apart = {});

// Without calls that only hand back an argument (contiguous(), dropout in evaluation), views that
// equal what they are a view of and, in a functionalised trace, copies that equal their original:
// where the program cannot tell.
Trace fold(const Trace& trace);

// Every call given to the first executor that claims it, and then put together to regions where the
// executor fuses; what was asked is added to `decisions`.
Trace place(const Trace& trace, std::span<const Executor> executors,
            std::vector<Decision>* decisions = nullptr);

// Every value freed after its last use.
Trace delete_last_used(const Trace& trace);

// The same of calls that are a program of their own.
void free_last_used(std::vector<Call>& calls, const std::vector<ValueId>& inputs,
                    const std::vector<ValueId>& outputs);

}  // namespace fulgurite
