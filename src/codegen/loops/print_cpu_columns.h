// The C++ text of loop programs with reductions whose rows lie side by side in memory.
#pragma once

#include <string>
#include <string_view>

#include "codegen/loops/loop_program.h"

namespace fulgurite {

// See print_cpu, which calls this.
std::string print_cpu_columns(const LoopProgram& program, std::string_view name, int vector_bytes);

}  // namespace fulgurite
