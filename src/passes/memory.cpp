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

StorageMerge::StorageMerge(const Trace& trace) : into_(trace.storages) {
  std::iota(into_.begin(), into_.end(), 0);
}

void StorageMerge::merge(StorageId from, StorageId into) { into_.at(of(from)) = of(into); }

StorageId StorageMerge::of(StorageId storage) const {
  while (into_.at(storage) != storage) storage = into_[storage];
  return storage;
}

void StorageMerge::apply(Trace& trace) const {
  for (Value& value : trace.values) value.type.storage = of(value.type.storage);
}

bool makes(const Call& call, ValueId id) {
  bool is_given = false;
  for_each_value(call.args, [&](ValueId arg) { is_given |= arg == id; });
  return !is_given;
}

bool asks_for_grad(const Trace& trace, const Call& call) {
  if (!call.op.aten ||
      !call.op.aten->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd))
    return false;
  bool requires_grad = false, has_gaps = false;
  for_each_value(call.args, [&](ValueId id) {
    const TensorType& type = type_of(trace, id);
    requires_grad |= type.requires_grad;
    has_gaps |= !is_contiguous(type);
  });
  return requires_grad && has_gaps;
}

bool must_run(const Call& call) {
  if (call.op.aten && facts_of(*call.op.aten).is_assert) return true;
  if (draws(call)) return true;
  for (const Call& inner : call.body)
    if (must_run(inner)) return true;
  return false;
}

}  // namespace fulgurite
