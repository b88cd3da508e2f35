// Decisions that a program takes on numbers that it reads from tensors.
#pragma once

#include <memory>

#include "ir/trace.h"
#include "runtime/plan.h"

namespace fulgurite {

// A plan for the outputs of `trace` that writes nothing: it says before a run what the run would
// compute. Null where that is more than a few computations on single numbers.
std::shared_ptr<const Plan> plan_of_decisions(Trace trace);

}  // namespace fulgurite
