// Which values of a forward pass are kept for the backward one, and which are computed again.
#pragma once

#include <functional>
#include <vector>

#include "ir/trace.h"

namespace fulgurite {

// A call that may be computed again in the backward pass: `cheap(call)` says that this takes no
// more time than reading what it reads.
using CheapCall = std::function<bool(const Trace&, const Call&)>;

// A least cut, in bytes, between the inputs of `trace` with its calls numbered `forward` and the
// values in `needed`, which the backward pass uses: the values that are kept, inputs among them
// (which are there anyway and count nothing; only those that are needed themselves, or by a view:
// others may be written to in between). Views are never kept: what they are views of is. All
// else that is needed follows from these by calls that `cheap` allows. Where several cuts are equal
// it is the one with the least to compute again. (Maximum flow by Dinitz 1970, minimum cut by Ford
// and Fulkerson 1956.)
std::vector<ValueId> saved_values(const Trace& trace, const std::vector<size_t>& forward,
                                  const std::vector<ValueId>& needed, const CheapCall& cheap);

}  // namespace fulgurite
