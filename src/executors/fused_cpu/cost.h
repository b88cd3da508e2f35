// About how long kernels take, ours and ATen's, on one core.
//
// Both are estimated by the same rules from the loop program of a region or of one call: the memory
// moved, the functions computed, and what each loop and call costs besides. The numbers were
// measured with AVX-512 on a server; what counts is which of two ways is faster.
#pragma once

#include <string>

#include "codegen/loops/loop_program.h"
#include "ir/trace.h"

namespace fulgurite {

// Nanoseconds of a run of the kernel that is printed of a program.
double kernel_nanoseconds(const LoopProgram& program, int vector_bytes);

// Why a program is better left to ATen on several cores; "" if it is not. The number of cores is
// not asked: the same program is to give the same bits on any.
std::string refuse_on_cores(const LoopProgram& program);

// Nanoseconds of ATen's own operators for a call that is not made one kernel with others. A view
// costs nothing: it is made all the same where it is used outside of a region. `program` is the
// call's own, if that is known already.
double aten_nanoseconds(const Trace& trace, const Call& call, const LoopProgram* program = nullptr);

}  // namespace fulgurite
