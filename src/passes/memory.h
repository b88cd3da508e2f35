// Which storages of a trace are written, and by which calls.
#pragma once

#include <vector>

#include "ir/trace.h"
#include "ops/facts.h"

namespace fulgurite {

// Storages by class: those that one value had, one after the other (set_()), count as one.
class StorageClasses {
 public:
  explicit StorageClasses(const Trace& trace);

  StorageId of(StorageId storage) const;
  StorageId of(const Trace& trace, ValueId id) const { return of(type_of(trace, id).storage); }
  size_t size() const { return parent_.size(); }

 private:
  void join(const Trace& trace, const std::vector<Call>& calls);

  std::vector<StorageId> parent_;
};

// Storages that become one because a value takes another's place.
class StorageMerge {
 public:
  explicit StorageMerge(const Trace& trace);

  void merge(StorageId from, StorageId into);
  StorageId of(StorageId storage) const;
  void apply(Trace& trace) const;  // to the types of all values

 private:
  std::vector<StorageId> into_;
};

// Calls `f(id)` for every value whose memory or geometry `call` or its body changes.
template <class F>
void for_each_change(const Call& call, F&& f) {
  for (int i : written_args(call))
    for (ValueId id : call.args[i].values)
      if (id != kNoValue) f(id);
  for (const Retyped& change : call.retyped) f(change.id);
  for (const Call& inner : call.body) for_each_change(inner, f);
}

// Whether a value is a result of the call that it was not given: it may hand back an argument.
bool makes(const Call& call, ValueId id);

// A composite may run in another way for a tensor that requires grad, which no view of a parameter
// does below autograd: at::matmul folds the larger of two tensors into a matrix if the other one
// does, and otherwise only where that makes no copy.
bool asks_for_grad(const Trace& trace, const Call& call);

// Draws random numbers or checks something, itself or in its body: never to be dropped.
bool must_run(const Call& call);

}  // namespace fulgurite
