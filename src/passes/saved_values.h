// Which values of a forward pass are kept for the backward one, and which are computed again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/trace.h"

namespace fulgurite {

// What is known of the time that a call takes.
struct Recomputation {
  // A call that may be computed again in the backward pass at no cost: this takes no more time than
  // reading what it reads.
  std::function<bool(const Trace&, const Call&)> cheap;
  // Of any call, about.
  std::function<double(const Trace&, const Call&)> nanoseconds;
  // Only the backward pass makes it: eager does that there, at the same cost.
  std::function<bool(const Call&)> late;
  // 1: what is cheap is computed again, and nothing else. 0: as much as can be. In between: that
  // share of the bytes by which the two differ is kept, and what takes the least time for its bytes
  // is computed again first.
  double budget = 1;
};

struct SavedValue {
  ValueId id = kNoValue;
  std::string reason;  // why it is not computed again
};

// A least cut, in bytes, between the inputs of `trace` with its calls numbered `forward` and the
// values in `needed`, which the backward pass uses: the values that are kept, inputs among them
// (which are there anyway and count nothing; but with a budget of 1 only those that are needed
// themselves, by a view or by what is late: others may be written to in between). Views are never
// kept: what they are views of is. All else that is needed follows from these by calls that may be
// computed again; one that draws, has an effect, or works on what is written to never may. Where
// several cuts are equal it is the one with the least to compute again. (Maximum flow by Dinitz
// 1970, minimum cut by Ford and Fulkerson 1956.)
std::vector<SavedValue> saved_values(const Trace& trace, const std::vector<size_t>& forward,
                                     const std::vector<ValueId>& needed,
                                     const Recomputation& recomputation);

}  // namespace fulgurite
