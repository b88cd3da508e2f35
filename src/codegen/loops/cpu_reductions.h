// Accumulators of reductions in a kernel's text.
#pragma once

#include <string>
#include <string_view>

#include "codegen/loops/loop_program.h"
#include "codegen/loops/prelude/prelude.h"

namespace fulgurite {

// The start value of an accumulator, as a vector.
std::string identity_of(Prelude& prelude, ReductionKind kind, c10::ScalarType dtype);

// accumulator with one more vector.
std::string combined(Prelude& prelude, ReductionKind kind, c10::ScalarType dtype,
                     const std::string& accumulator, const std::string& value);

// A float sum of many addends: what is declared for reduction i, the statement that moves a partial
// sum into it, which keeps what the addition loses and adds it with the next one, and its value.
std::string total_declared(int32_t i, c10::ScalarType dtype);
std::string add_to_total(Prelude& prelude, int32_t i, c10::ScalarType dtype,
                         const std::string& partial);
// `of`: before the names.
std::string total_of(int32_t i, std::string_view of = "");

// All lanes of an accumulator combined, in every lane.
std::string across_lanes(Prelude& prelude, ReductionKind kind, c10::ScalarType dtype, int lanes,
                         const std::string& accumulator);

}  // namespace fulgurite
