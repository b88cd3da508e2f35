// Results of regions that may be written where the epilogue would copy them.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "ir/trace.h"

namespace fulgurite {

// By region: per result an input of the trace, or kNoValue. Such an input ends up with just that
// result, nothing looks at it or at its memory in between, and no call in between raises an error
// that depends on data: what has been written is not taken back. Regions are in it that have such
// results. `checks`: whether a region may decline for its data.
using Targets = std::unordered_map<const Call*, std::vector<ValueId>>;
Targets find_targets(const Trace& trace, const std::function<bool(const Call&)>& checks);

}  // namespace fulgurite
