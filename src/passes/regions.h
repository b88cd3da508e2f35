// Regions: calls that one executor runs as one.
#pragma once

#include "ir/executor.h"

namespace fulgurite {

// The calls that `executor` has been given, put together to regions (fusion0, fusion1, ...) as far
// as it fuses them. No call is moved across one that writes, and none that draws random numbers
// across another. A view whose result is used outside of a region stays there, too, so that
// aliases stay aliases. What was tried is added to `decisions`.
Trace form_regions(const Trace& placed, const Executor& executor, std::vector<Decision>* decisions);

}  // namespace fulgurite
