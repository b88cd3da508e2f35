// Fewer loops: neighbouring dimensions which every access goes through as through one.
#pragma once

#include "codegen/loops/loop_program.h"

namespace fulgurite {

void collapse(LoopProgram& program);

}  // namespace fulgurite
