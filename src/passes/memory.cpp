#include "passes/memory.h"

#include <numeric>

namespace fulgurite {

StorageClasses::StorageClasses(const Trace& trace) : parent_(trace.storages) {
  std::iota(parent_.begin(), parent_.end(), 0);
  join(trace, trace.calls);
}

StorageId StorageClasses::of(StorageId storage) const {
  while (parent_.at(storage) != storage) storage = parent_[storage];
  return storage;
}

void StorageClasses::join(const Trace& trace, const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    join(trace, call.body);
    for (const Retyped& change : call.retyped)
      parent_[of(change.type.storage)] = of(trace, change.id);
  }
}

bool must_run(const Call& call) {
  if (call.op.aten && facts_of(*call.op.aten).is_assert) return true;
  if (draws(call)) return true;
  for (const Call& inner : call.body)
    if (must_run(inner)) return true;
  return false;
}

}  // namespace fulgurite
