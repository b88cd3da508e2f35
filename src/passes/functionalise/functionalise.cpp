#include <algorithm>

#include "ops/facts.h"
#include "passes/filter.h"
#include "passes/functionalise/calls.h"
#include "passes/passes.h"

namespace fulgurite {
namespace {

// Whether the call writes a gradient's history into a storage of `inputs`. Running statistics and
// other writes that a schema does not declare have none.
bool gives_history(const Trace& trace, const Call& call,
                   const std::unordered_set<StorageId>& inputs) {
  bool differentiable = false, seen = false;
  const auto look = [&](ValueId id) { differentiable |= type_of(trace, id).requires_grad; };
  for_each_value(call.args, look);
  for_each_value(call.results, look);
  for (const Retyped& change : call.retyped) differentiable |= change.type.requires_grad;
  for (int i : written_args(call)) {
    const auto* alias = call.op.aten->schema().arguments()[i].alias_info();
    if (!alias || !alias->isWrite()) continue;
    for (ValueId id : call.args[i].values)
      seen |= id != kNoValue && inputs.contains(type_of(trace, id).storage);
  }
  if (differentiable && seen) return true;
  return std::any_of(call.body.begin(), call.body.end(),
                     [&](const Call& part) { return gives_history(trace, part, inputs); });
}

// Whether the caller sees what autograd recorded: an output, or an input that was written, has a
// history. The writes are part of it, and a scatter has another history than a write.
bool gives_history(const Trace& trace) {
  std::unordered_set<StorageId> inputs;
  std::unordered_set<ValueId> given;
  for (const Input& input : trace.inputs) {
    inputs.insert(type_of(trace, input.id).storage);
    given.insert(input.id);
  }
  for (const Call& call : trace.calls)
    if (call.mode == GradMode::Grad && gives_history(trace, call, inputs)) return true;
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
