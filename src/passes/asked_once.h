// Models repeat: what an executor says of a layer it says of all of them.
#pragma once

#include "ir/executor.h"

namespace fulgurite {

// The executor, asked once of calls of one structure (ir/structure.h), which is all that its
// answers may depend on. For one thread, and for one compilation. One that does not fuse is given
// back as it is.
Executor asked_once(const Executor& executor);

}  // namespace fulgurite
