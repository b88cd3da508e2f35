#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "ops/facts.h"
#include "ops/named_ops.h"
#include "passes/functionalise/calls.h"
#include "passes/functionalise/views.h"

namespace fulgurite {
namespace {

struct FinalCopy {
  ValueId input;
  ValueId value;
  std::optional<TensorType> window;  // of the input's storage; the input itself where there is none
};

class Epilogue {
 public:
  explicit Epilogue(State& state) : state_(state), out_(state.out), in_(state.in) {
    for (const Input& input : in_.inputs) used_.push_back(input.id);
  }

  void add() {
    out_.mode = in_.mode == GradMode::Inference ? GradMode::Inference : GradMode::NoGrad;
    out_.source = out_.module = -1;
    for (StorageState& storage : state_.storages) find_final_values(storage);
    std::vector<ValueId> results = in_.outputs;
    std::vector<bool> later;
    for (ValueId& id : results) {
      later.push_back(in_input_memory(id));
      if (!later.back()) id = final_output(id);
    }
    find_moved_inputs();

    out_.trace.epilogue = static_cast<int32_t>(out_.trace.calls.size());
    for (StorageState& storage : state_.storages) resize_inputs(storage);
    for (const FinalCopy& copy : copies_) write_input(copy);
    for (StorageState& storage : state_.storages) hand_to_inputs(storage);
    for (size_t i = 0; i < results.size(); ++i)
      if (later[i]) results[i] = final_output(results[i]);
    change_inputs();
    out_.trace.outputs = std::move(results);
  }

 private:
  const TensorType& new_type(ValueId id) const { return type_of(out_.trace, id); }
  const TensorType& given_type(ValueId id) const { return in_.values[id].type; }
  const TensorType& old_type(ValueId id) const { return *state_.values[id].type; }

  static int64_t element_size(const TensorType& type) {
    return static_cast<int64_t>(c10::elementSize(type.dtype));
  }

  bool is_input(ValueId id) const {
    return std::any_of(in_.inputs.begin(), in_.inputs.end(),
                       [&](const Input& input) { return input.id == id; });
  }

  // Whether the caller sees the storage through an input, after all writes to it.
  bool in_input_memory(ValueId id) {
    if (is_input(id)) return true;
    const StorageState* storage = storage_of(state_, id);
    return storage && !storage->given.empty() && (storage->written || has_grown(*storage));
  }

  bool has_grown(const StorageState& storage) const {
    return !storage.given.empty() && storage.nbytes > given_type(storage.given[0]).nbytes;
  }

  void find_final_values(StorageState& storage) {
    if (storage.given.empty()) return;
    if (has_grown(storage)) {
      flatten(state_, storage);
      const int64_t size = element_size(storage.layout);
      storage.wild_begin = storage.layout.offset * size;
      storage.wild_end = storage.wild_begin + storage.layout.sizes[0] * size;
      storage.stale.clear();
    } else if (!storage.written) {
      return;
    }
    for (ValueId input : storage.stale) {
      const TensorType& type = given_type(input);
      const bool whole = type.dtype == storage.layout.dtype && !type.conj && !type.neg &&
                         same_geometry(type, storage.layout);
      // The strides of what is copied from do not matter.
      copies_.push_back(
          {input, whole ? storage.holder : view_of_holder(state_, storage, type), {}});
    }
    if (storage.wild_begin < storage.wild_end) copies_.push_back(wild_copy(storage));
  }

  FinalCopy wild_copy(StorageState& storage) {
    flatten(state_, storage);
    const int64_t size = element_size(storage.layout);
    TensorType window = storage.layout;
    window.offset = storage.wild_begin / size;
    window.sizes = {(storage.wild_end + size - 1) / size - window.offset};
    window.strides = {1};
    return {storage.given[0], view_of_holder(state_, storage, window), window};
  }

  // The value of an output, as a tensor of its own.
  ValueId final_output(ValueId id) {
    if (is_input(id)) return id;
    if (auto it = results_.find(id); it != results_.end()) return it->second;
    ValueId result = in_final_memory(id);
    if (std::find(used_.begin(), used_.end(), result) != used_.end())
      result = add_call(out_, named_ops().alias, {Arg::of(result)}, new_type(result));
    used_.push_back(result);
    return results_[id] = result;
  }

  // As a view of the holder, where another value that is handed out has the same memory.
  ValueId in_final_memory(ValueId id) {
    StorageState* storage = storage_of(state_, id);
    const ValueId result = current(state_, id);
    if (!storage) return result;
    const ValueId holder = laid_out_holder(state_, *storage);
    if (new_type(holder).storage == new_type(result).storage || !is_shared(id)) return result;
    return view_of_holder(state_, *storage, old_type(id));
  }

  bool is_shared(ValueId id) const {
    const StorageId storage = old_type(id).storage;
    const auto shares = [&](ValueId other) {
      return other != id && old_type(other).storage == storage;
    };
    return std::any_of(in_.outputs.begin(), in_.outputs.end(), shares) ||
           std::any_of(in_.inputs.begin(), in_.inputs.end(),
                       [&](const Input& input) { return shares(input.id); });
  }

  bool has_moved(ValueId input) const {
    return old_type(input).storage != given_type(input).storage;
  }

  // The new contents of inputs that were given another storage, unless that is an input's, too.
  void find_moved_inputs() {
    for (const Input& input : in_.inputs)
      if (has_moved(input.id) && !in_given_memory(input.id))
        moved_[input.id] = in_final_memory(input.id);
  }

  bool in_given_memory(ValueId id) {
    const StorageState* storage = storage_of(state_, id);
    return storage && !storage->given.empty();
  }

  // Room for what was written beyond the end of an input that a call has resized.
  void resize_inputs(StorageState& storage) {
    if (!has_grown(storage)) return;
    const ValueId input = storage.given[0];
    TensorType type = given_type(input);
    type.sizes = {storage.nbytes / element_size(type) - type.offset};
    type.strides = {1};
    type.nbytes = storage.nbytes;
    change(named_ops().resize_, {Arg::of(input), int_list(type.sizes), Arg()}, input, type);
    restride(input, given_type(input));
  }

  void write_input(const FinalCopy& copy) {
    ValueId target = copy.input;
    if (copy.window) {
      if (given_type(target).conj) target = view_conj(out_, target);
      if (given_type(target).neg) target = view_neg(out_, target);
      target = view_by_strides(out_, target, *copy.window, copy.window->offset);
    }
    Call call;
    call.op = named_ops().copy_;
    call.args = {Arg::of(target), Arg::of(copy.value), Arg::literal(false)};
    call.results = {Arg::of(target)};
    add_call(out_, std::move(call));
  }

  // From here on the inputs themselves hold what has been written to them.
  void hand_to_inputs(StorageState& storage) {
    if (storage.given.empty()) return;
    if (!storage.written && !has_grown(storage)) return;
    storage.holder = storage.mould = storage.given[0];
    storage.layout = given_type(storage.given[0]);
    storage.laid_out = true;
    storage.written = storage.flat = false;
    ++storage.version;
    for (ValueId input : storage.given)
      if (old_type(input) == given_type(input)) bind(state_, input, input);
  }

  // A call that leaves the geometry as it was counts in the version of the input all the same.
  std::unordered_set<ValueId> with_changed_metadata() const {
    std::unordered_set<ValueId> changed;
    for (const Call& call : in_.calls) {
      if (!call.op.aten || !facts_of(*call.op.aten).changes_metadata) continue;
      for (int arg : written_args(call)) changed.insert(call.args[arg].values[0]);
    }
    return changed;
  }

  void change_inputs() {
    for (const Input& input : in_.inputs)
      if (has_moved(input.id) && in_given_memory(input.id))
        moved_[input.id] = current(state_, input.id);
    const auto changed = with_changed_metadata();
    for (const Input& input : in_.inputs) {
      const ValueId id = input.id;
      if (auto it = moved_.find(id); it != moved_.end()) {
        TensorType type = new_type(it->second);
        type.requires_grad = given_type(id).requires_grad;
        change(named_ops().set_, {Arg::of(id), Arg::of(it->second)}, id, type);
      } else if (!same_geometry(old_type(id), given_type(id)) || changed.contains(id)) {
        restride(id, old_type(id));
      }
    }
  }

  void restride(ValueId input, const TensorType& to) {
    TensorType type = given_type(input);
    type.sizes = to.sizes;
    type.strides = to.strides;
    type.offset = to.offset;
    const Arg offset = to.offset == given_type(input).offset ? Arg() : number(to.offset);
    change(named_ops().as_strided_,
           {Arg::of(input), int_list(to.sizes), int_list(to.strides), offset}, input, type);
  }

  void change(const c10::OperatorHandle& op, std::vector<Arg> args, ValueId input,
              TensorType type) {
    Call call;
    call.op = op;
    call.args = std::move(args);
    call.results = {Arg::of(input)};
    call.retyped = {{input, std::move(type)}};
    add_call(out_, std::move(call));
  }

  State& state_;
  Builder& out_;
  const Trace& in_;
  std::vector<FinalCopy> copies_;
  std::vector<ValueId> used_;                     // handed out as a tensor of its own
  std::unordered_map<ValueId, ValueId> results_;  // by output
  std::unordered_map<ValueId, ValueId> moved_;    // by input: what it now is a view of
};

}  // namespace

void add_epilogue(State& state) { Epilogue(state).add(); }

}  // namespace fulgurite
