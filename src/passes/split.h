// A joint trace as a forward and a backward one.
#pragma once

#include <vector>

#include "base/error.h"
#include "passes/differentiate.h"
#include "passes/saved_values.h"

namespace fulgurite {

// The forward trace returns the outputs of the original and then the values in `saved` that are
// none of its inputs or outputs; the backward one takes the gradients and all of `saved`, in
// order, and returns the gradients of Joint::gradient_of.
struct Halves {
  Trace forward, backward;
  std::vector<ValueId> saved;
  std::vector<SavedValue> reasons;  // of these, in order
  int64_t bytes_needed = 0;         // of what the forward pass makes and the backward one uses
};

// Whoever writes to a result would write to what is saved, and nobody would notice.
class SharesSaved : public Unsupported {
 public:
  SharesSaved() : Unsupported("a result shares memory with what its gradient needs") {}
};

// What depends on a gradient that comes in goes to the backward trace, with what is
// computed again; the rest, effects and the epilogue stay in the forward one. Throws Unsupported
// where the backward pass would write to what the forward one made, draw random numbers, read an
// input as it was before the trace wrote to it; SharesSaved where it would need what a result is a
// view of.
Halves split(const Joint& joint, const Recomputation& recomputation);

}  // namespace fulgurite
