// The executor that runs regions as generated machine code on the CPU.
#pragma once

#include "ir/executor.h"

namespace fulgurite {

// Claims what can be part of a loop program, as long as there is a compiler for its text, and fuses
// what makes one loop program.
Executor fused_cpu_executor();

}  // namespace fulgurite
