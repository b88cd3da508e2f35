// A bound on how many regions a process forms, to find the one that is at fault by halving.
#pragma once

#include "ir/executor.h"

namespace fulgurite {

// Asked once for each region that could be formed: in the order in which the process compiles
// traces, and in a trace in the order of its regions. "" while there is fuel; otherwise the reason,
// with the number of the region, from 1. FULGURITE_FUSION_FUEL says for how many regions there is
// fuel, and is read when first asked; UserError where it is no whole number. Without it there is no
// bound. For any thread.
Refusal burn_fusion_fuel();

}  // namespace fulgurite
