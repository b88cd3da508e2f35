// The C++ text of loop programs with reductions: a row at a time.
#pragma once

#include <string>
#include <string_view>

#include "codegen/loops/loop_program.h"

namespace fulgurite {

// See print_cpu, which calls this.
std::string print_cpu_rows(const LoopProgram& program, std::string_view name, int vector_bytes);

}  // namespace fulgurite
