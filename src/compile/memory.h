// What the executors say of the memory of a trace.
#pragma once

#include "passes/memory_timeline.h"

namespace fulgurite {

// Of the last trace of a series, as the default executors run it: regions of others are taken to
// make new memory for each result.
MemoryTimeline predict_memory(const Trace& trace);

}  // namespace fulgurite
