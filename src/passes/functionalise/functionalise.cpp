#include <algorithm>

#include "passes/filter.h"
#include "passes/functionalise/calls.h"
#include "passes/memory.h"
#include "passes/passes.h"

namespace fulgurite {
namespace {

// Whether the caller sees what autograd recorded: an output, or an input that was written, has a
// history. The writes are part of it, and a scatter has another history than a write.
bool gives_history(const Trace& trace) {
  std::unordered_set<StorageId> inputs;
  std::unordered_set<ValueId> given;
  for (const Input& input : trace.inputs) {
    inputs.insert(type_of(trace, input.id).storage);
    given.insert(input.id);
  }
  for (const Call& call : trace.calls) {
    if (call.mode != GradMode::Grad) continue;
    bool differentiable = false, seen = false;
    const auto look = [&](ValueId id) { differentiable |= type_of(trace, id).requires_grad; };
    for_each_value(call.args, look);
    for_each_value(call.results, look);
    for_each_change(call, [&](ValueId id) {
      seen |= inputs.contains(type_of(trace, id).storage);
    });
    for (const Retyped& change : call.retyped) differentiable |= change.type.requires_grad;
    if (differentiable && seen) return true;
  }
  return std::any_of(trace.outputs.begin(), trace.outputs.end(), [&](ValueId id) {
    return type_of(trace, id).requires_grad && !given.contains(id);
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
  if (gives_history(trace)) return trace;
  State state(trace);
  state.out.trace = without_calls(trace);
  state.out.mode = trace.mode;
  take_inputs(state);
  for (const Call& call : trace.calls) take_over(state, call);
  add_epilogue(state);
  return std::move(state.out.trace);
}

}  // namespace fulgurite
