// What becomes of a value whose geometry is changed in place.
#pragma once

#include <unordered_map>

#include "ir/trace.h"

namespace fulgurite {

// Types that differ from those that the values were made with.
using Retypings = std::unordered_map<ValueId, const TensorType*>;

// Adds what `call` and the calls of its body change, in the order in which they run.
void retype(const Call& call, Retypings& types);

// The type of `id` once `call` has run, unless an earlier call has changed it.
const TensorType& type_after(const Trace& trace, const Call& call, ValueId id);

}  // namespace fulgurite
