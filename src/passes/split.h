// A joint trace as a forward and a backward one.
#pragma once

#include <vector>

#include "passes/differentiate.h"
#include "passes/saved_values.h"

namespace fulgurite {

// The forward trace returns the outputs of the original and then the values in `saved` that are
// none of its inputs or outputs; the backward one takes the gradients and all of `saved`, in
// order, and returns the gradients of Joint::gradient_of.
struct Halves {
  Trace forward, backward;
  std::vector<ValueId> saved;
};

// What depends on a gradient that comes in goes to the backward trace, with what `cheap` allows to
// be computed again; the rest, effects and the epilogue stay in the forward one. Throws Unsupported
// where the backward pass would write to what the forward one made, draw random numbers, read an
// input as it was before the trace wrote to it, or need what a result is a view of.
Halves split(const Joint& joint, const CheapCall& cheap);

}  // namespace fulgurite
