#include "passes/functionalise/state.h"

#include <algorithm>

#include "base/error.h"
#include "ops/named_ops.h"
#include "passes/functionalise/views.h"

namespace fulgurite {
namespace {

int64_t element_size(const TensorType& type) {
  return static_cast<int64_t>(c10::elementSize(type.dtype));
}

const TensorType& new_type(const State& state, ValueId id) { return type_of(state.out.trace, id); }

// Whether the trace sees elements of the storage that `root` has not, or counts from its start.
bool reaches_beyond(const StorageState& storage, const TensorType& root) {
  if (storage.exact_offsets) return true;
  return std::any_of(storage.views.begin(), storage.views.end(), [&](const TensorType* view) {
    if (numel(*view) == 0) return false;
    return element_size(*view) != element_size(root) || !place(root, *view);
  });
}

TensorType one_dimension(const TensorType& like, int64_t size, int64_t offset) {
  TensorType type = like;
  type.sizes = {size};
  type.strides = {1};
  type.offset = offset;
  return type;
}

// The part of the storage that the trace sees, as one dimension. Where some call counts from the
// start of the storage, all of it.
TensorType flat_layout(const StorageState& storage) {
  const int64_t size = element_size(storage.layout);
  int64_t begin = 0, end = storage.nbytes;
  if (!storage.exact_offsets) {
    begin = storage.nbytes;
    end = 0;
    int64_t alignment = size;
    for (const TensorType* view : storage.views) {
      if (numel(*view) == 0) continue;
      begin = std::min(begin, view->offset * element_size(*view));
      end = std::max(end, (view->offset + extent(*view)) * element_size(*view));
      alignment = std::max(alignment, element_size(*view));
    }
    begin = begin / alignment * alignment;
    end = std::min((end + alignment - 1) / alignment * alignment, storage.nbytes);
  }
  return one_dimension(storage.layout, end / size - begin / size, begin / size);
}

bool is_lazy(const TensorType& type) { return type.conj || type.neg; }

// A copy of `value` with the strides of `layout`.
ValueId copy_laid_out(State& state, const StorageState& storage, ValueId value) {
  const TensorType& layout = storage.layout;
  if (is_contiguous(layout)) return contiguous_copy(state.out, value);
  if (is_dense(layout)) {
    Dims order(layout.sizes.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return layout.strides[a] > layout.strides[b]; });
    ViewStep there, back;
    there.kind = back.kind = ViewStep::Kind::Permute;
    there.dims = order;
    back.dims.resize(order.size());
    for (size_t i = 0; i < order.size(); ++i) back.dims[order[i]] = static_cast<int64_t>(i);
    return view(state.out, contiguous_copy(state.out, view(state.out, value, {there})), {back});
  }
  // With gaps: in the place of all elements of a tensor that has them.
  TensorType type = new_type(state, storage.mould);
  type.storage = kNoStorage;
  return add_call(state.out, named_ops().slice_scatter,
                  {Arg::of(storage.mould), Arg::of(value), number(0), Arg(), Arg(), number(1)},
                  type);
}

// `value` with the strides of the layout: itself, or a copy.
ValueId lay_out(State& state, const StorageState& storage, ValueId value) {
  const TensorType& layout = storage.layout;
  const auto has_strides = [&](ValueId id) {
    const TensorType& type = new_type(state, id);
    for (size_t i = 0; i < layout.sizes.size(); ++i)
      if (layout.sizes[i] != 1 && type.strides[i] != layout.strides[i]) return false;
    return true;
  };
  const bool misplaced = storage.exact_offsets && new_type(state, value).offset != layout.offset;
  if (numel(layout) == 0) return value;
  if (!has_strides(value) || misplaced || is_lazy(new_type(state, value)))
    value = copy_laid_out(state, storage, value);
  if (new_type(state, value).strides == layout.strides) return value;
  return view_by_strides(state.out, value, layout, new_type(state, value).offset);
}

// The layout with its lazy bits off, so that it can be scattered into.
void resolve(State& state, StorageState& storage) {
  if (!is_lazy(storage.layout)) return;
  if (storage.layout.conj) storage.holder = view_conj(state.out, storage.holder);
  if (storage.layout.neg) storage.holder = view_neg(state.out, storage.holder);
  storage.layout.conj = storage.layout.neg = false;
  storage.mould = storage.holder;
}

// The holder and its layout seen with elements of another dtype.
struct Seen {
  ValueId base = kNoValue;
  TensorType layout;
};

Seen holder_as(State& state, StorageState& storage, c10::ScalarType dtype) {
  if (storage.layout.dtype != dtype) {
    resolve(state, storage);
    if (c10::elementSize(dtype) != c10::elementSize(storage.layout.dtype)) flatten(state, storage);
  }
  Seen seen{laid_out_holder(state, storage), storage.layout};
  if (seen.layout.dtype == dtype) return seen;
  auto layout = type_as(storage.layout, dtype);
  seen.base = view_as(state.out, seen.base, dtype);
  require(layout.has_value(), "a layout that cannot be seen as {}", c10::toString(dtype));
  seen.layout = std::move(*layout);
  return seen;
}

int64_t offset_in(const State& state, const Seen& seen, const TensorType& type) {
  return new_type(state, seen.base).offset + type.offset - seen.layout.offset;
}

// The holder with the elements of `type` replaced.
ValueId put_into_holder(State& state, StorageState& storage, const TensorType& type,
                        ValueId value) {
  if (type.dtype == storage.layout.dtype && same_geometry(type, storage.layout)) return value;
  const Seen seen = holder_as(state, storage, type.dtype);
  auto steps = place(seen.layout, type);
  ValueId holder = steps && can_put(*steps) ? put(state.out, seen.base, *steps, value)
                                            : put_by_strides(state.out, seen.base, type,
                                                             offset_in(state, seen, type), value);
  return view_as(state.out, holder, storage.layout.dtype);
}

// Whether every later use may take `value` for the old value of type `type` itself.
bool stands_for(const State& state, const StorageState& storage, const TensorType& type,
                ValueId value) {
  const TensorType& is = new_type(state, value);
  return !storage.exact_offsets && is.dtype == type.dtype && is.strides == type.strides &&
         is.conj == type.conj && is.neg == type.neg;
}

}  // namespace

StorageState* find_storage(State& state, StorageId id) {
  const int32_t index = state.tracked.at(id);
  return index < 0 ? nullptr : &state.storages[index];
}

StorageState* storage_of(State& state, ValueId id) {
  return find_storage(state, state.values.at(id).type->storage);
}

void bind(State& state, ValueId id, ValueId now) {
  ValueState& value = state.values.at(id);
  value.made = true;
  value.now = now;
  value.version = storage_of(state, id)->version;
}

ValueId current(State& state, ValueId id) {
  StorageState* storage = storage_of(state, id);
  if (!storage) return id;
  ValueState& value = state.values[id];
  require(value.made, "value {} is used before it is made", id);
  const bool up_to_date = value.version == storage->version || numel(*value.type) == 0;
  if (value.now != kNoValue && up_to_date) return value.now;
  value.now = view_of_holder(state, *storage, *value.type);
  value.version = storage->version;
  return value.now;
}

Arg current(State& state, const Arg& arg) {
  Arg renamed = arg;
  for (ValueId& id : renamed.values)
    if (id != kNoValue) id = current(state, id);
  return renamed;
}

std::vector<Arg> current(State& state, const std::vector<Arg>& args) {
  std::vector<Arg> renamed;
  renamed.reserve(args.size());
  for (const Arg& arg : args) renamed.push_back(current(state, arg));
  return renamed;
}

ValueId view_of_holder(State& state, StorageState& storage, const TensorType& type) {
  const TensorType& layout = storage.layout;
  if (type.dtype == layout.dtype && same_geometry(type, layout) && type.conj == layout.conj &&
      type.neg == layout.neg)
    return laid_out_holder(state, storage);
  const Seen seen = holder_as(state, storage, type.dtype);
  ValueId found;
  if (auto steps = place(seen.layout, type))
    found = view(state.out, seen.base, *steps);
  else
    found = view_by_strides(state.out, seen.base, type, offset_in(state, seen, type));
  if (type.conj != layout.conj) found = view_conj(state.out, found);
  if (type.neg != layout.neg) found = view_neg(state.out, found);
  return found;
}

void make_root(State& state, ValueId id) {
  StorageState& storage = *storage_of(state, id);
  const TensorType& type = *state.values[id].type;
  storage.exists = true;
  storage.inference = state.out.mode == GradMode::Inference;
  storage.written = storage.flat = false;
  storage.laid_out = true;
  storage.nbytes = type.nbytes;
  storage.layout = type;
  storage.holder = storage.mould = id;
  storage.flat_first = !covers(type, type.nbytes) && reaches_beyond(storage, type);
  ++storage.version;
  bind(state, id, id);
}

void make_view(State& state, ValueId id, ValueId parent) {
  const ValueId base = current(state, parent);
  const TensorType &was = *state.values[parent].type, &is = new_type(state, base);
  TensorType& type = state.out.trace.values.at(id).type;
  type = *state.values[id].type;
  const int64_t moved = is.offset * element_size(is) - was.offset * element_size(was);
  type.offset += moved / element_size(type);
  type.storage = is.storage;
  type.nbytes = is.nbytes;
  bind(state, id, id);
}

void write(State& state, ValueId id, ValueId value, bool fresh) {
  const TensorType& type = *state.values[id].type;
  if (numel(type) == 0) return;
  StorageState& storage = *storage_of(state, id);
  note_write(state, storage, type);
  if (!storage.written && storage.flat_first) flatten(state, storage);
  resolve(state, storage);
  ValueId stored = value;
  if (type.conj) stored = view_conj(state.out, stored);
  if (type.neg) stored = view_neg(state.out, stored);
  storage.holder = put_into_holder(state, storage, type, stored);
  const bool shared = new_type(state, storage.holder).storage == new_type(state, value).storage;
  if (shared && !fresh) storage.holder = copy_laid_out(state, storage, storage.holder);
  storage.laid_out = false;
  storage.written = true;
  ++storage.version;
  if (fresh && stands_for(state, storage, type, value)) bind(state, id, value);
}

namespace {

// More memory: the old contents, then whatever a fresh tensor holds.
void grow(State& state, StorageState& storage, const TensorType& type) {
  if (!storage.exists) storage.layout = type;
  const int64_t size = element_size(storage.layout);
  const int64_t before = storage.exists ? storage.nbytes / size : 0;
  const int64_t more = type.nbytes / size - before;
  if (before > 0) flatten(state, storage);
  const ValueId old = before > 0 ? laid_out_holder(state, storage) : kNoValue;
  TensorType layout = one_dimension(storage.layout, more, before > 0 ? storage.layout.offset : 0);
  storage.holder = add_call(state.out, named_ops().empty,
                            {int_list(layout.sizes), number(static_cast<int64_t>(layout.dtype)),
                             Arg(), Arg::literal(layout.device), Arg(), Arg()},
                            dense_like(layout));
  if (before > 0) {
    const ValueId parts[] = {old, storage.holder};
    layout.sizes = {storage.layout.sizes[0] + more};
    storage.holder =
        add_call(state.out, named_ops().cat, {Arg::list(parts), number(0)}, dense_like(layout));
  }
  storage.layout = layout;
  storage.mould = storage.holder;
  storage.nbytes = type.nbytes;
  storage.exists = storage.laid_out = storage.flat = true;
  ++storage.version;
}

}  // namespace

void retype(State& state, const Retyped& change) {
  ValueState& value = state.values.at(change.id);
  value.type = &change.type;
  value.now = kNoValue;
  value.version = -1;
  StorageState& storage = *storage_of(state, change.id);
  if (!storage.exists || change.type.nbytes > storage.nbytes) grow(state, storage, change.type);
}

ValueId laid_out_holder(State& state, StorageState& storage) {
  if (!storage.laid_out) storage.holder = lay_out(state, storage, storage.holder);
  storage.laid_out = true;
  return storage.holder;
}

void flatten(State& state, StorageState& storage) {
  if (storage.flat) return;
  resolve(state, storage);
  const ValueId base = laid_out_holder(state, storage);
  const TensorType& layout = storage.layout;
  TensorType flat = flat_layout(storage);
  const int64_t first = new_type(state, base).offset - layout.offset;
  if (auto steps = place(layout, flat)) {
    storage.holder = view(state.out, base, *steps);
  } else {
    // Once written, a root with gaps is all that the trace sees, see `reaches_beyond`.
    if (storage.written && !covers(layout, storage.nbytes))
      flat = one_dimension(layout, extent(layout), layout.offset);
    storage.holder = view_by_strides(state.out, base, flat, first + flat.offset);
  }
  storage.layout = flat;
  storage.mould = storage.holder;
  storage.flat = true;
}

void note_write(State& state, StorageState& storage, const TensorType& type) {
  if (storage.given.empty()) return;
  for (ValueId id : storage.given) {
    const TensorType& input = state.in.values[id].type;
    const bool inside = covers(input, input.nbytes) ||
                        (element_size(input) == element_size(type) && place(input, type));
    if (!inside) continue;
    if (std::find(storage.stale.begin(), storage.stale.end(), id) == storage.stale.end())
      storage.stale.push_back(id);
    return;
  }
  const int64_t begin = type.offset * element_size(type);
  const int64_t end = begin + extent(type) * element_size(type);
  const bool first = storage.wild_begin == storage.wild_end;
  storage.wild_begin = first ? begin : std::min(begin, storage.wild_begin);
  storage.wild_end = first ? end : std::max(end, storage.wild_end);
}

bool covers(const TensorType& type, int64_t nbytes) {
  return type.offset == 0 && is_dense(type) && numel(type) * element_size(type) == nbytes;
}

}  // namespace fulgurite
