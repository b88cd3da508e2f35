// What functionalisation knows while it walks the old trace and writes the new one.
//
// A storage that is written, or whose geometry changes hands, is *tracked*; everything else is
// taken over as it stands. The contents of a tracked storage are held by one new value, the
// *holder*, which has the geometry `layout` of the old storage: that of the value which made it,
// or the whole storage as one dimension. A write makes a new holder, and an old value is brought
// up to date when it is next used, as a view of the holder.
#pragma once

#include "passes/functionalise/builder.h"

namespace fulgurite {

struct ValueState {
  const TensorType* type = nullptr;  // in the old trace, at this moment
  ValueId now = kNoValue;            // the new value; kNoValue when there is none of this geometry
  int32_t version = -1;              // of its storage, when `now` was made
  bool made = false;
};

struct StorageState {
  bool exists = false;         // made at this point of the trace, outside of the body at work
  bool inference = false;      // made under inference mode
  bool exact_offsets = false;  // some call counts from the start of the storage (as_strided)
  bool flat = false;           // `layout` is one dimension, over all that the trace sees
  bool flat_first = false;     // has to be flat before the first write
  bool written = false;
  bool laid_out = true;  // the holder has the strides of `layout`
  int32_t version = 0;
  int64_t nbytes = 0;
  ValueId holder = kNoValue;
  ValueId mould = kNoValue;              // some new value with the strides of `layout`
  TensorType layout;                     // in the old storage
  std::vector<const TensorType*> views;  // all the types with which the trace sees this storage

  c10::SmallVector<ValueId, 2> given;    // inputs; the first is the root
  c10::SmallVector<ValueId, 2> stale;    // those whose elements have been written
  int64_t wild_begin = 0, wild_end = 0;  // bytes written that lie in no input
};

struct State {
  explicit State(const Trace& trace);

  const Trace& in;
  Builder out;
  std::vector<ValueState> values;  // by old number
  std::vector<int32_t> tracked;    // by storage: index into `storages`, or -1
  std::vector<StorageState> storages;
  const Call* opened = nullptr;  // the frame whose parts are being taken over
};

// The state of a storage, and of the one that a value is in now; null where it is not tracked.
StorageState* find_storage(State& state, StorageId id);
StorageState* storage_of(State& state, ValueId id);

// The new value `now` has the present contents of the old value `id`, and its geometry.
void bind(State& state, ValueId id, ValueId now);

// The new value with the present contents of the old value `id`.
ValueId current(State& state, ValueId id);
Arg current(State& state, const Arg& arg);
std::vector<Arg> current(State& state, const std::vector<Arg>& args);

// The present contents of a storage with the geometry `type`, as a view of the holder.
ValueId view_of_holder(State& state, StorageState& storage, const TensorType& type);

// The old value `id` is made by the call at hand, as the value of the same number.
void make_root(State& state, ValueId id);                  // in memory of its own
void make_view(State& state, ValueId id, ValueId parent);  // of an old value

// A write to all elements of the old value `id`. `fresh`: nothing else in the new trace shares
// the memory of `value`.
void write(State& state, ValueId id, ValueId value, bool fresh);

// A call changed the geometry or the storage of an old value.
void retype(State& state, const Retyped& change);

// The holder, with the strides of the layout.
ValueId laid_out_holder(State& state, StorageState& storage);

// Makes the layout one dimension, over all that the trace sees of the storage.
void flatten(State& state, StorageState& storage);

// Notes for the epilogue that the elements of an old value are written.
void note_write(State& state, StorageState& storage, const TensorType& type);

// The elements of `type` are all those of its storage, without gaps or another order.
bool covers(const TensorType& type, int64_t nbytes);

}  // namespace fulgurite
