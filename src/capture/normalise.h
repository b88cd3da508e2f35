// A trace as recorded, made one that a pass can rely on.
#pragma once

#include "ir/trace.h"

namespace fulgurite {

// Opens every call of which an inner value is used outside; drops copies of constants that nobody
// could have written to; sets the trace's mode, from the one at entry.
Trace normalise(Trace trace, GradMode entry_mode);

}  // namespace fulgurite
