// Which storages have to be tracked, and all that the trace does with them.
#include <unordered_set>

#include "ops/facts.h"
#include "passes/functionalise/state.h"

namespace fulgurite {
namespace {

class Scan {
 public:
  explicit Scan(State& state) : state_(state) {
    state.tracked.assign(state.in.storages, -1);
    read_types();
    find_written(state.in.calls);
    if (state.storages.empty()) return;
    read_types();
    for (const ValueState& value : state.values) add_view(*value.type);
    for (const Retyped* change : retyped_) add_view(change->type);
    find_exact(state.in.calls);
    find_placed_outputs();
    read_types();
  }

 private:
  void read_types() {
    for (size_t i = 0; i < state_.values.size(); ++i)
      state_.values[i].type = &state_.in.values[i].type;
  }

  void track(StorageId storage) {
    if (state_.tracked.at(storage) >= 0) return;
    state_.tracked[storage] = static_cast<int32_t>(state_.storages.size());
    state_.storages.emplace_back();
  }

  void find_written(const std::vector<Call>& calls) {
    for (const Call& call : calls) {
      for (int i : written_args(call))
        for (ValueId id : call.args[i].values)
          if (id != kNoValue) track(state_.values[id].type->storage);
      find_written(call.body);
      for (const Retyped& change : call.retyped) {
        track(state_.values[change.id].type->storage);
        track(change.type.storage);
        state_.values[change.id].type = &change.type;
        retyped_.push_back(&change);
      }
    }
  }

  void add_view(const TensorType& type) {
    if (StorageState* storage = find_storage(state_, type.storage)) storage->views.push_back(&type);
  }

  static bool has_exact_offset(const Call& call) {
    return call.op.aten && call.op.aten->schema().argumentIndexWithName("storage_offset");
  }

  void find_exact(const std::vector<Call>& calls) {
    for (const Call& call : calls) {
      for_each_value(call.args, [&](ValueId id) {
        StorageState* storage = storage_of(state_, id);
        if (storage && !storage->exact_offsets) storage->exact_offsets = has_exact_offset(call);
      });
      find_exact(call.body);
      for (const Retyped& change : call.retyped) state_.values[change.id].type = &change.type;
    }
  }

  // An output that is a part of memory of the program's own lies where eager has it.
  void find_placed_outputs() {
    std::unordered_set<StorageId> given;
    for (const Input& input : state_.in.inputs)
      given.insert(state_.in.values[input.id].type.storage);
    for (ValueId id : state_.in.outputs) {
      const TensorType& type = *state_.values[id].type;
      StorageState* storage = find_storage(state_, type.storage);
      if (!storage || given.contains(type.storage)) continue;
      const auto bytes = numel(type) * static_cast<int64_t>(c10::elementSize(type.dtype));
      if (type.offset != 0 || bytes != type.nbytes) storage->exact_offsets = true;
    }
  }

  State& state_;
  std::vector<const Retyped*> retyped_;
};

}  // namespace

State::State(const Trace& trace) : in(trace), values(trace.values.size()) { Scan scan(*this); }

}  // namespace fulgurite
