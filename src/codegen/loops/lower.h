// Calls of a trace as one loop program.
#pragma once

#include <span>
#include <variant>

#include "codegen/loops/loop_program.h"
#include "ir/executor.h"
#include "ir/trace.h"

namespace fulgurite {

// The program that computes `outputs` from `inputs` by these calls, or why there is none. A call
// without a loop form of its own stands for its body. Sizes and strides are those of the trace:
// a call with other ones is lowered again, and gives the same text if its tensors have the same
// kinds of strides.
std::variant<LoopProgram, Refusal> lower_region(const Trace& trace, std::span<const Call> calls,
                                                c10::ArrayRef<ValueId> inputs,
                                                c10::ArrayRef<ValueId> outputs);

// Why there is no loop program of this call alone; "" if there is one. A region of such calls may
// still be refused, for its shapes; views of inputs are part of regions, but none by themselves.
Refusal refuse_in_loops(const Trace& trace, const Call& call);

}  // namespace fulgurite
