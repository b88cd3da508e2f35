// Without the statements and loads that no result needs.
#pragma once

#include "codegen/loops/loop_program.h"

namespace fulgurite {

void prune(LoopProgram& program);

}  // namespace fulgurite
