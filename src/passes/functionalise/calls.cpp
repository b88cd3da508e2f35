#include "passes/functionalise/calls.h"

#include <algorithm>

#include "base/error.h"
#include "ir/rename.h"
#include "ops/facts.h"
#include "ops/named_ops.h"
#include "passes/functionalise/views.h"

namespace fulgurite {
namespace {

bool touches_tracked(State& state, const Call& call) {
  bool found = !call.retyped.empty();
  const auto look = [&](ValueId id) { found = found || storage_of(state, id); };
  for_each_value(call.args, look);
  for_each_value(call.results, look);
  for (const Call& inner : call.body) found = found || touches_tracked(state, inner);
  return found;
}

bool exists(State& state, StorageId storage) {
  const StorageState* found = find_storage(state, storage);
  return found && found->exists;
}

// Whether the parts write to, or change the geometry of, what was there before the call.
bool parts_write_outside(State& state, const Call& call) {
  for (const Call& part : call.body) {
    for (int i : written_args(part))
      for (ValueId id : part.args[i].values)
        if (id != kNoValue && exists(state, state.values[id].type->storage)) return true;
    for (const Retyped& change : part.retyped)
      if (exists(state, state.values[change.id].type->storage) ||
          exists(state, change.type.storage))
        return true;
    if (parts_write_outside(state, part)) return true;
  }
  return false;
}

// Takes the place of a call: what is added now comes from it. A part of a frame that is opened
// comes from where the frame does, unless it says otherwise.
void come_from(State& state, const Call& call) {
  const Call* frame = state.opened;
  // Nobody sees a history that new calls would record.
  state.out.mode = call.mode == GradMode::Grad ? GradMode::NoGrad : call.mode;
  state.out.source = call.source < 0 && frame ? frame->source : call.source;
  state.out.module = call.module < 0 && frame ? frame->module : call.module;
}

void bring_up_to_date(State& state, const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    for_each_value(call.args, [&](ValueId id) {
      if (storage_of(state, id) && state.values[id].made) current(state, id);
    });
    bring_up_to_date(state, call.body);
  }
}

struct FrameResult {
  ValueId id;
  bool handed_back;   // one of the arguments
  bool fresh_memory;  // made in the body
};

std::vector<FrameResult> results_before(State& state, const Call& call) {
  std::vector<FrameResult> results;
  for_each_value(call.results, [&](ValueId id) {
    if (const StorageState* storage = storage_of(state, id))
      results.push_back({id, state.values[id].made, !storage->exists});
  });
  return results;
}

// In the body: the values that are handed out, those of one storage as views of one holder.
std::vector<ValueId> final_values(State& state, const std::vector<FrameResult>& results) {
  std::vector<ValueId> finals;
  for (const FrameResult& result : results) {
    if (result.handed_back || !result.fresh_memory) {
      finals.push_back(result.id);
      continue;
    }
    StorageState& storage = *storage_of(state, result.id);
    const auto shares = [&](const FrameResult& other) {
      return other.id != result.id && storage_of(state, other.id) == &storage;
    };
    ValueId final = current(state, result.id);
    if (storage.written && std::any_of(results.begin(), results.end(), shares)) {
      final = view_of_holder(state, storage, *state.values[result.id].type);
      if (std::find(finals.begin(), finals.end(), final) != finals.end())
        final = add_call(state.out, named_ops().alias, {Arg::of(final)},
                         type_of(state.out.trace, final));
    }
    finals.push_back(final);
  }
  return finals;
}

// Gives what the body hands out the numbers of the results; what had them before gets new ones.
void keep_numbers(State& state, const std::vector<FrameResult>& results,
                  const std::vector<ValueId>& finals) {
  Trace& trace = state.out.trace;
  Renaming names(trace.values.size());
  bool any = false;
  for (size_t i = 0; i < results.size(); ++i) {
    const ValueId id = results[i].id;
    if (finals[i] == id || results[i].handed_back) continue;
    any = true;
    TensorType before = trace.values[id].type;
    const StorageId storage = trace.values[finals[i]].type.storage;
    trace.values[id].type = *state.values[id].type;
    trace.values[id].type.storage = storage;
    names.set(id, add_value(trace, std::move(before)));
    names.set(finals[i], id);
  }
  if (!any) return;
  for (Call& call : trace.calls) names.apply(call);
}

// From here on the results stand for the storages that the body made.
void bind_frame_results(State& state, const std::vector<FrameResult>& results) {
  std::vector<StorageState*> rooted;
  const auto is_rooted = [&](StorageState* storage) {
    return std::find(rooted.begin(), rooted.end(), storage) != rooted.end();
  };
  for (bool whole : {true, false})
    for (const FrameResult& result : results) {
      StorageState* storage = storage_of(state, result.id);
      const TensorType& type = *state.values[result.id].type;
      if (result.handed_back || !result.fresh_memory || is_rooted(storage)) continue;
      if (whole && !covers(type, type.nbytes)) continue;
      make_root(state, result.id);
      rooted.push_back(storage);
    }
  for (const FrameResult& result : results)
    if (is_rooted(storage_of(state, result.id))) bind(state, result.id, result.id);
}

// A frame that writes nothing but memory of its own: its parts are functionalised, it stays.
void keep_frame(State& state, const Call& call) {
  Call kept;
  kept.op = call.op;
  kept.args = current(state, call.args);
  kept.results = call.results;
  bring_up_to_date(state, call.body);
  const std::vector<FrameResult> results = results_before(state, call);
  for (Arg& arg : kept.results)
    for (ValueId& id : arg.values)
      if (id != kNoValue && state.values[id].made && storage_of(state, id)) id = current(state, id);

  std::vector<Call> outside = std::exchange(state.out.trace.calls, {});
  for (const Call& part : call.body) take_over(state, part);
  keep_numbers(state, results, final_values(state, results));
  kept.body = std::exchange(state.out.trace.calls, std::move(outside));

  come_from(state, call);
  bind_frame_results(state, results);
  add_call(state.out, std::move(kept)).mode = call.mode;
}

void open_frame(State& state, const Call& call) {
  const Call* outer = std::exchange(state.opened, state.opened ? state.opened : &call);
  for (const Call& part : call.body) take_over(state, part);
  state.opened = outer;
}

}  // namespace

void bind_results(State& state, const Call& call, Call& made) {
  for (size_t i = 0; i < call.results.size(); ++i)
    for (size_t k = 0; k < call.results[i].values.size(); ++k) {
      const ValueId id = call.results[i].values[k];
      if (id == kNoValue || !storage_of(state, id)) continue;
      if (state.values[id].made) {
        made.results[i].values[k] = current(state, id);
        continue;
      }
      ValueId parent = kNoValue;
      for_each_value(call.args, [&](ValueId arg) {
        if (parent == kNoValue && storage_of(state, arg) == storage_of(state, id)) parent = arg;
      });
      if (parent == kNoValue)
        make_root(state, id);
      else
        make_view(state, id, parent);
    }
}

void take_over(State& state, const Call& call) {
  come_from(state, call);
  if (!touches_tracked(state, call)) {
    Call same = call;
    add_call(state.out, std::move(same)).mode = call.mode;
    return;
  }
  const auto written = written_args(call);
  if (call.body.empty()) {
    if (!written.empty() || !call.retyped.empty()) return replace_write(state, call, written);
    Call made = call;
    made.args = current(state, call.args);
    bind_results(state, call, made);
    add_call(state.out, std::move(made)).mode = call.mode;
  } else if (!written.empty() || parts_write_outside(state, call)) {
    open_frame(state, call);
  } else {
    keep_frame(state, call);
  }
}

}  // namespace fulgurite
