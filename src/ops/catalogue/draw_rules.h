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

// In [low, high), or in [0, high): one word for each, by its rest.
DrawnElements integer_elements(const Trace& trace, const Call& call, bool from_zero);
Results integer_of(const DrawCall& call, bool from_zero);
template <bool from_zero>
inline constexpr DrawRule integers{
    [](const Trace& trace, const Call& call) { return integer_elements(trace, call, from_zero); },
    [](const DrawCall& call) { return integer_of(call, from_zero); }};

}  // namespace fulgurite::catalogue_families::rules
