// What is drawn of each element.
#pragma once

#include "ops/draw_rule.h"

namespace fulgurite::catalogue_families::rules {

DrawnElements dropout_elements(const Trace& trace, const Call& call);
Results dropout_of(const DrawCall& call);
DrawnElements native_dropout_elements(const Trace& trace, const Call& call);
Results native_dropout_of(const DrawCall& call);
DrawnElements bernoulli_elements(const Trace& trace, const Call& call);
Results bernoulli_of(const DrawCall& call);
DrawnElements bernoulli_p_elements(const Trace& trace, const Call& call);
Results bernoulli_p_of(const DrawCall& call);
DrawnElements rand_elements(const Trace& trace, const Call& call);
Results rand_of(const DrawCall& call);
DrawnElements uniform_elements(const Trace& trace, const Call& call);
Results uniform_of(const DrawCall& call);

}  // namespace fulgurite::catalogue_families::rules
