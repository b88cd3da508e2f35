#include "compile/decisions.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_set>

#include "executors/aten/aten.h"
#include "ops/facts.h"
#include "passes/passes.h"

namespace fulgurite {
namespace {

constexpr size_t kMostCalls = 200;  // for each decision

// The calls that the outputs come from. False where one of them is written in place.
bool keep_what_leads_to_outputs(Trace& trace) {
  trace = functionalise(trace);
  if (trace.epilogue >= 0) trace.calls.resize(static_cast<size_t>(trace.epilogue));
  trace.epilogue = -1;
  std::unordered_set<ValueId> needed(trace.outputs.begin(), trace.outputs.end());
  std::unordered_set<StorageId> memory;
  for (ValueId id : needed) memory.insert(type_of(trace, id).storage);
  std::vector<Call> kept;
  for (size_t i = trace.calls.size(); i-- > 0;) {
    Call& call = trace.calls[i];
    bool leads = false, writes = false;
    for_each_value(call.results, [&](ValueId id) { leads |= needed.count(id) > 0; });
    for (int written : written_args(call))
      for (ValueId id : call.args[written].values)
        writes |= id != kNoValue && memory.count(type_of(trace, id).storage);
    if (writes) return false;
    if (!leads) continue;
    for_each_value(call.args, [&](ValueId id) {
      needed.insert(id);
      memory.insert(type_of(trace, id).storage);
    });
    kept.push_back(std::move(call));
  }
  trace.calls.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  return true;
}

bool is_small(const Trace& trace) {
  if (trace.calls.size() > kMostCalls * trace.outputs.size()) return false;
  return std::all_of(trace.calls.begin(), trace.calls.end(), [&](const Call& call) {
    bool single = !has_effect(call);
    const auto look = [&](ValueId id) { single = single && numel(type_of(trace, id)) == 1; };
    for_each_value(call.args, look);
    for_each_value(call.results, look);
    return single;
  });
}

}  // namespace

std::shared_ptr<const Plan> plan_of_decisions(Trace trace) {
  trace.mode = GradMode::NoGrad;
  if (!keep_what_leads_to_outputs(trace) || !is_small(trace)) return nullptr;
  const std::array executors{aten_executor()};
  return std::make_shared<const Plan>(delete_last_used(place(trace, executors)));
}

}  // namespace fulgurite
