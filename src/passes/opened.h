// Calls whose parts one executor takes where it does not take them whole.
#pragma once

#include <vector>

#include "ir/executor.h"
#include "ir/trace.h"

namespace fulgurite {

// The parts of `call`, a composite or one of which the catalogue knows parts, in order: those that
// `executor` claims are given to it, those that take no tensors to nobody yet. None where it does
// not claim each of the others. What the parts make may be added to the trace.
std::vector<Call> opened(Trace& trace, const Call& call, const Executor& executor);

}  // namespace fulgurite
