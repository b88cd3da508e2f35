#include "passes/memory_timeline.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "ir/layout.h"
#include "ops/catalogue.h"
#include "passes/passes.h"

namespace fulgurite {
namespace {

bool is_region(const Call& call) { return !call.op.aten && !call.gradient; }

// Where nothing lies outside of the elements of one tensor.
int64_t bytes_of_result(const TensorType& type) {
  return extent(type) * static_cast<int64_t>(c10::elementSize(type.dtype));
}

class Simulation {
 public:
  Simulation(const Trace& trace, const MemoryOfRegion& memory_of_region)
      : trace_(trace), memory_of_region_(memory_of_region), storages_(trace.storages) {
    for (const Value& value : trace.values) {
      const StorageId storage = value.type.storage;
      lies_in_.push_back(storage);
      if (storage >= static_cast<StorageId>(storages_.size())) storages_.resize(storage + 1);
    }
    is_alive_.resize(trace.values.size());
  }

  MemoryTimeline run() {
    give_inputs();
    for (const Call& call : trace_.calls) {
      MemoryOfCall record;
      record.peak = live_;
      const int64_t before = live_;
      peak_ = live_;
      now_ = &record;
      const std::unordered_set<StorageId> before_it = storages_of(call.args);
      run(call);
      note_made(call, before_it);
      record.allocated = live_ - before;
      record.peak = peak_;
      for (ValueId id : call.frees)
        if (const int64_t bytes = drop(id)) record.gone.push_back({id, bytes});
      record.freed = before + record.allocated - live_;
      record.live = live_;
      if (record.peak > timeline_.peak) {
        timeline_.peak = record.peak;
        timeline_.peak_call = static_cast<int32_t>(timeline_.calls.size());
      }
      timeline_.calls.push_back(std::move(record));
    }
    timeline_.live = live_;
    return std::move(timeline_);
  }

 private:
  struct Storage {
    int64_t bytes = 0;
    int32_t values = 0;    // that are alive and lie in it
    bool is_held = false;  // by the caller
  };

  // Of saved ones those that have a name are inputs of the forward pass.
  bool is_held(const Input& input) const {
    if (input.kind == InputKind::Gradient) return false;
    return input.kind != InputKind::Saved || !trace_.values[input.id].name.empty();
  }

  void give_inputs() {
    for (const Input& input : trace_.inputs) {
      Storage& storage = storages_[lies_in_[input.id]];
      if (storage.values == 0)
        timeline_.given.push_back({input.id, type_of(trace_, input.id).nbytes});
      make(input.id, type_of(trace_, input.id).nbytes);
      if (!is_held(input) || storage.is_held) continue;
      storage.is_held = true;
      timeline_.held += storage.bytes;
    }
    timeline_.inputs = timeline_.peak = live_;
  }

  void allocate(int64_t bytes) {
    live_ += bytes;
    peak_ = std::max(peak_, live_);
  }

  void use_for_a_while(int64_t bytes) { peak_ = std::max(peak_, live_ + bytes); }

  // New memory, if nothing lies in its storage yet.
  void make(ValueId id, int64_t bytes) {
    if (is_alive_[id]) return;
    is_alive_[id] = true;
    Storage& storage = storages_[lies_in_[id]];
    if (storage.values++ > 0 || storage.is_held) return;
    storage.bytes = bytes;
    allocate(bytes);
  }

  // How many bytes that freed.
  int64_t drop(ValueId id) {
    if (!is_alive_[id]) return 0;
    is_alive_[id] = false;
    return leave(lies_in_[id]);
  }

  int64_t leave(StorageId storage) {
    Storage& left = storages_[storage];
    if (--left.values > 0 || left.is_held) return 0;
    live_ -= left.bytes;
    return std::exchange(left.bytes, 0);
  }

  std::unordered_set<StorageId> storages_of(const std::vector<Arg>& args) const {
    std::unordered_set<StorageId> found;
    for_each_value(args, [&](ValueId id) { found.insert(lies_in_[id]); });
    return found;
  }

  void note_made(const Call& call, std::unordered_set<StorageId> known) {
    for (const auto& [result, argument] : now_->reused) known.insert(lies_in_[result]);
    for_each_value(call.results, [&](ValueId id) {
      const Storage& storage = storages_[lies_in_[id]];
      if (is_alive_[id] && storage.bytes > 0 && !storage.is_held &&
          known.insert(lies_in_[id]).second)
        now_->made.push_back({id, storage.bytes});
    });
  }

  void run(const Call& call) {
    if (is_region(call)) {
      if (const std::optional<RegionMemory> memory = memory_of_region_(call))
        return run_region(call, *memory);
    }
    run_body(call);
    for_each_value(call.results, [&](ValueId id) { make(id, type_of(trace_, id).nbytes); });
    if (const OpRecord* record = call.op.aten ? find_record(*call.op.aten) : nullptr;
        record && record->scratch && call.body.empty())
      use_for_a_while(record->scratch(trace_, call));
    for (const Retyped& change : call.retyped) retype(change);
  }

  void run_body(const Call& call) {
    if (call.body.empty()) return;
    std::vector<Call> body = call.body;
    std::vector<ValueId> results;
    for_each_value(call.results, [&](ValueId id) { results.push_back(id); });
    free_last_used(body, {}, results);
    ++depth_;
    for (const Call& inner : body) {
      run(inner);
      for (ValueId id : inner.frees) drop(id);
    }
    --depth_;
  }

  void run_region(const Call& call, const RegionMemory& memory) {
    for (size_t k = 0; k < call.results.size(); ++k) {
      const ValueId id = call.results[k].values.at(0);
      if (id == kNoValue || is_alive_[id]) continue;
      const bool has_target = k < memory.targets.size() && memory.targets[k] != kNoValue;
      const int64_t bytes = bytes_of_result(type_of(trace_, id));
      if (has_target)
        make(id, 0);
      else if (k >= memory.over.size() || !write_over(call, id, memory.over[k]))
        make(id, bytes);
    }
    use_for_a_while(memory.scratch);
  }

  bool write_over(const Call& call, ValueId result, const std::vector<ValueId>& arguments) {
    for (ValueId id : arguments) {
      Storage& storage = storages_[lies_in_[id]];
      const TensorType& type = type_of(trace_, id);
      const bool is_last = std::ranges::count(call.frees, id) > 0;
      if (!is_alive_[id] || !is_last || storage.values != 1 || storage.is_held) continue;
      if (type.offset != 0 || type.requires_grad || storage.bytes == 0 ||
          storage.bytes != numel(type) * static_cast<int64_t>(c10::elementSize(type.dtype)))
        continue;
      Storage& taken = storages_[lies_in_[result]];
      taken.bytes = storage.bytes;
      ++taken.values;
      is_alive_[result] = true;
      storage = {};
      is_alive_[id] = false;
      if (depth_ == 0) now_->reused.emplace_back(result, id);
      return true;
    }
    return false;
  }

  // resize_() and set_(): memory that grows is copied from the old to the new one.
  void retype(const Retyped& change) {
    if (!is_alive_[change.id]) return;
    const StorageId before = lies_in_[change.id], after = change.type.storage;
    if (before != after) {
      if (after >= static_cast<StorageId>(storages_.size())) storages_.resize(after + 1);
      is_alive_[change.id] = false;
      leave(before);
      lies_in_[change.id] = after;
      make(change.id, change.type.nbytes);
      return;
    }
    Storage& storage = storages_[before];
    if (change.type.nbytes <= storage.bytes) return;
    allocate(change.type.nbytes);
    live_ -= storage.bytes;
    storage.bytes = change.type.nbytes;
  }

  const Trace& trace_;
  const MemoryOfRegion& memory_of_region_;
  std::vector<Storage> storages_;
  std::vector<StorageId> lies_in_;  // by value
  std::vector<bool> is_alive_;      // by value
  int64_t live_ = 0, peak_ = 0;
  int depth_ = 0;
  MemoryOfCall* now_ = nullptr;
  MemoryTimeline timeline_;
};

}  // namespace

MemoryTimeline memory_timeline(const Trace& trace, const MemoryOfRegion& memory_of_region) {
  return Simulation(trace, memory_of_region).run();
}

}  // namespace fulgurite
