#include <algorithm>

#include "passes/filter.h"
#include "passes/functionalise/calls.h"
#include "passes/passes.h"

namespace fulgurite {
namespace {

// Whether autograd takes part in any call: what it saves and checks would not be the same.
bool records_gradients(const Trace& trace, const std::vector<Call>& calls) {
  return std::any_of(calls.begin(), calls.end(), [&](const Call& call) {
    if (call.mode != GradMode::Grad) return false;
    bool differentiable = false;
    const auto look = [&](ValueId id) { differentiable |= type_of(trace, id).requires_grad; };
    for_each_value(call.args, look);
    for_each_value(call.results, look);
    for (const Retyped& change : call.retyped) differentiable |= change.type.requires_grad;
    return differentiable;
  });
}

void take_inputs(State& state) {
  for (const Input& input : state.in.inputs) {
    StorageState* storage = storage_of(state, input.id);
    if (!storage || state.values[input.id].made) continue;
    state.values[input.id].made = true;
    storage->given.push_back(input.id);
  }
  for (StorageState& storage : state.storages) {
    if (storage.given.empty()) continue;
    const auto whole = std::find_if(storage.given.begin(), storage.given.end(), [&](ValueId id) {
      return covers(state.in.values[id].type, state.in.values[id].type.nbytes);
    });
    if (whole != storage.given.end()) std::iter_swap(storage.given.begin(), whole);
    make_root(state, storage.given[0]);
    for (ValueId id : storage.given) bind(state, id, id);
  }
}

}  // namespace

Trace functionalise(const Trace& trace) {
  if (records_gradients(trace, trace.calls)) return trace;
  State state(trace);
  state.out.trace = without_calls(trace);
  state.out.mode = trace.mode;
  take_inputs(state);
  for (const Call& call : trace.calls) take_over(state, call);
  add_epilogue(state);
  return std::move(state.out.trace);
}

}  // namespace fulgurite
