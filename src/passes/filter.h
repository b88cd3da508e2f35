// A trace with some of another's calls.
#pragma once

#include <utility>

#include "ir/trace.h"

namespace fulgurite {

// A copy of everything but the calls.
Trace without_calls(const Trace& trace);

// The calls of `trace` for which `keep(index, call)` holds; `call` is a copy that it may change.
template <class Keep>
Trace filter_calls(const Trace& trace, Keep&& keep) {
  Trace result = without_calls(trace);
  const auto count = static_cast<int32_t>(trace.calls.size());
  for (int32_t i = 0; i < count; ++i) {
    if (i == trace.epilogue) result.epilogue = static_cast<int32_t>(result.calls.size());
    Call call = trace.calls[i];
    if (keep(i, call)) result.calls.push_back(std::move(call));
  }
  if (trace.epilogue == count) result.epilogue = static_cast<int32_t>(result.calls.size());
  return result;
}

}  // namespace fulgurite
