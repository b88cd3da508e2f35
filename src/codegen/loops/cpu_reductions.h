// Accumulators of reductions in a kernel's text.
#pragma once

#include <string>

#include "codegen/loops/loop_program.h"
#include "codegen/loops/prelude/prelude.h"

namespace fulgurite {

// The start value of an accumulator, as a vector.
std::string identity_of(Prelude& prelude, ReductionKind kind, c10::ScalarType dtype);

// accumulator with one more vector.
std::string combined(Prelude& prelude, ReductionKind kind, c10::ScalarType dtype,
                     const std::string& accumulator, const std::string& value);

// All lanes of an accumulator combined, in every lane.
std::string across_lanes(Prelude& prelude, ReductionKind kind, c10::ScalarType dtype, int lanes,
                         const std::string& accumulator);

}  // namespace fulgurite
