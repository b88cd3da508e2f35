#include <algorithm>

#include "base/error.h"
#include "ops/facts.h"
#include "ops/named_ops.h"
#include "passes/functionalise/calls.h"
#include "passes/functionalise/views.h"

namespace fulgurite {
namespace {

using Indices = c10::SmallVector<int, 2>;
using Ids = c10::SmallVector<ValueId, 4>;

const TensorType& new_type(const State& state, ValueId id) { return type_of(state.out.trace, id); }
const TensorType& old_type(const State& state, ValueId id) { return *state.values.at(id).type; }

Ids ids_of(const Call& call, const Indices& written) {
  Ids ids;
  for (int i : written)
    for (ValueId id : call.args[i].values)
      if (id != kNoValue && std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  return ids;
}

void retype_all(State& state, const Call& call) {
  for (const Retyped& change : call.retyped) retype(state, change);
}

// The elements of `value` as they will be stored: of the dtype, device and sizes of `type`.
struct Conformed {
  ValueId value;
  bool fresh;
};
Conformed conform(State& state, ValueId value, const TensorType& type, bool fresh) {
  const TensorType is = new_type(state, value);
  if (is.dtype != type.dtype || is.device != type.device) {
    value = add_inferred1(state.out, named_ops().to_copy,
                          {Arg::of(value), number(static_cast<int64_t>(type.dtype)), Arg(),
                           Arg::literal(type.device), Arg(), Arg::literal(false), Arg()});
    fresh = true;
  }
  if (is.sizes != type.sizes) {
    value = add_inferred1(state.out, named_ops().expand,
                          {Arg::of(value), int_list(type.sizes), Arg::literal(false)});
    fresh = false;
  }
  return {value, fresh};
}

void write_conformed(State& state, ValueId id, ValueId value, bool fresh) {
  const Conformed c = conform(state, value, old_type(state, id), fresh);
  write(state, id, c.value, c.fresh);
}

// Whether a list of tensors is written whose elements share memory with other arguments: the
// operator works on them one after the other, its functional form on all at once.
bool elements_interfere(const State& state, const Call& call, const Indices& written) {
  struct Element {
    ValueId id;
    int64_t begin, end;  // bytes
    int64_t position;    // in its list; -1 for a tensor that every element meets
  };
  const auto is_written = [&](size_t i) {
    return std::find(written.begin(), written.end(), static_cast<int>(i)) != written.end();
  };
  const auto is_list = [&](size_t i) { return call.args[i].kind == Arg::Kind::ValueList; };
  if (std::none_of(written.begin(), written.end(), is_list)) return false;
  std::unordered_map<StorageId, std::vector<Element>> by_storage;
  const auto add = [&](ValueId id, int64_t position, bool writes) {
    const TensorType& type = old_type(state, id);
    const auto size = static_cast<int64_t>(c10::elementSize(type.dtype));
    const Element e{id, type.offset * size, (type.offset + extent(type)) * size, position};
    auto& others = by_storage[type.storage];
    const bool clash = writes && std::any_of(others.begin(), others.end(), [&](const Element& o) {
                         const bool same = o.id == e.id && o.position == e.position;
                         return !same && o.begin < e.end && e.begin < o.end;
                       });
    others.push_back(e);
    return clash;
  };
  // Those which are only read first, so that every pair with a write is seen.
  for (bool writes : {false, true})
    for (size_t i = 0; i < call.args.size(); ++i)
      for (size_t k = 0; k < call.args[i].values.size(); ++k) {
        const ValueId id = call.args[i].values[k];
        if (id == kNoValue || is_written(i) != writes) continue;
        if (add(id, is_list(i) ? static_cast<int64_t>(k) : -1, writes)) return true;
      }
  return false;
}

// Whether other arguments share a storage with what is written.
bool is_shared(State& state, const Call& call, const Ids& ids) {
  bool shared = false;
  for_each_value(call.args, [&](ValueId arg) {
    for (ValueId id : ids)
      shared |= arg != id && old_type(state, arg).storage == old_type(state, id).storage;
  });
  return shared;
}

// The call itself, on copies of the whole storages that it writes to. Its arguments are views of
// these, with the strides and the overlaps that the program saw.
void run_on_copied_storages(State& state, const Call& call, const Ids& ids) {
  for (ValueId id : ids) {
    if (numel(old_type(state, id)) == 0) continue;
    StorageState& storage = *storage_of(state, id);
    note_write(state, storage, old_type(state, id));
    flatten(state, storage);
    storage.holder = storage.mould = dense_copy(state.out, laid_out_holder(state, storage));
    storage.written = true;
    ++storage.version;
  }
  Call made;
  made.op = call.op;
  made.args = current(state, call.args);
  made.results = call.results;
  bind_results(state, call, made);
  add_call(state.out, std::move(made));
}

void replace_all(std::vector<Arg>& made, const std::vector<Arg>& old, ValueId id, ValueId by) {
  for (size_t i = 0; i < old.size(); ++i)
    for (size_t k = 0; k < old[i].values.size(); ++k)
      if (old[i].values[k] == id) made[i].values[k] = by;
}

// The call itself, on copies of the tensors that it writes to.
void run_on_copies(State& state, const Call& call, const Ids& ids) {
  Call made;
  made.op = call.op;
  made.args = current(state, call.args);
  made.results = call.results;
  bind_results(state, call, made);
  Ids copies;
  for (ValueId id : ids) {
    copies.push_back(dense_copy(state.out, current(state, id)));
    replace_all(made.args, call.args, id, copies.back());
    replace_all(made.results, call.results, id, copies.back());
  }
  add_call(state.out, std::move(made));
  for (size_t i = 0; i < ids.size(); ++i) write(state, ids[i], copies[i], true);
}

void confine(State& state, const Call& call, const Ids& ids) {
  bool dense = true;
  for (ValueId id : ids) dense &= is_dense(old_type(state, id));
  if (dense && !is_shared(state, call, ids))
    run_on_copies(state, call, ids);
  else
    run_on_copied_storages(state, call, ids);
}

// The call of the functional form, with results that are not inferred: those of `call`, and for
// every argument that is written a tensor like it.
Call& call_form(State& state, const Call& call, const FunctionalForm& form, const OpFacts& facts) {
  Call made;
  made.op = form.op;
  for (int i : form.arg_of) made.args.push_back(current(state, call.args[i]));
  for (int i : facts.plain_returns) made.results.push_back(call.results[i]);
  for (int i : facts.written) {
    TensorType type = old_type(state, call.args[i].values.at(0));
    type = is_dense(type) ? dense_like(type) : contiguous_like(type);
    made.results.push_back(Arg::of(add_value(state.out.trace, type)));
  }
  return add_call(state.out, std::move(made));
}

// The same with results inferred; the plain ones get the numbers that they had.
Call& infer_form(State& state, const Call& call, const FunctionalForm& form, const OpFacts& facts) {
  std::vector<Arg> args;
  for (int i : form.arg_of) args.push_back(current(state, call.args[i]));
  Call& made = add_inferred(state.out, form.op, std::move(args));
  for (size_t i = 0; i < facts.plain_returns.size(); ++i)
    made.results[i] = call.results[facts.plain_returns[i]];
  return made;
}

// An out= argument decides what dtype the operator computes in, which its functional form is not
// told.
bool computes_in_another_dtype(const State& state, const Call& call, const Call& made,
                               const OpFacts& facts) {
  for (size_t i = 0; i < facts.written.size(); ++i) {
    const int arg = facts.written[i];
    if (!call.op.aten->schema().arguments()[arg].is_out()) continue;
    const auto& values = made.results[facts.plain_returns.size() + i].values;
    for (size_t k = 0; k < values.size(); ++k)
      if (new_type(state, values[k]).dtype != old_type(state, call.args[arg].values[k]).dtype)
        return true;
  }
  return false;
}

bool all_present(const Call& call, const OpFacts& facts) {
  return std::all_of(facts.written.begin(), facts.written.end(),
                     [&](int i) { return call.args[i].kind == Arg::Kind::Value; });
}

// The functional form in the place of the call; false where it would compute something else.
bool replace_by_form(State& state, const Call& call, const FunctionalForm& form) {
  const OpFacts& facts = facts_of(*call.op.aten);
  if (facts.hidden_write_flag && !all_present(call, facts)) return false;
  const StorageId first_new = state.out.trace.storages;
  Call& made = facts.hidden_write_flag ? call_form(state, call, form, facts)
                                       : infer_form(state, call, form, facts);
  if (computes_in_another_dtype(state, call, made, facts)) {
    state.out.trace.calls.pop_back();
    return false;
  }
  // What follows adds calls.
  const std::vector<Arg> results = made.results;
  retype_all(state, call);
  for (int i : facts.plain_returns)
    for (ValueId id : call.results[i].values)
      if (id != kNoValue && storage_of(state, id)) make_root(state, id);
  for (size_t i = 0; i < facts.written.size(); ++i) {
    const auto& targets = call.args[facts.written[i]].values;
    const auto& values = results[facts.plain_returns.size() + i].values;
    for (size_t k = 0; k < targets.size(); ++k)
      if (targets[k] != kNoValue)
        write_conformed(state, targets[k], values.at(k),
                        new_type(state, values[k]).storage >= first_new);
  }
  return true;
}

bool has_functional_form(const State& state, const Call& call, const Indices& written,
                         const Ids& ids) {
  if (!functional_form(*call.op.aten)) return false;
  const bool draw = draws(call);
  for (ValueId id : ids) {
    if (!is_injective(old_type(state, id))) return false;
    // Generators fill memory in the order of the strides, which a copy may not have.
    if (draw && !is_contiguous(old_type(state, id))) return false;
  }
  return !elements_interfere(state, call, written);
}

}  // namespace

void replace_write(State& state, const Call& call, const Indices& written) {
  require(call.op.aten.has_value(), "region {} writes but has no body", call.op.region);
  if (facts_of(*call.op.aten).changes_metadata) return retype_all(state, call);
  const Ids ids = ids_of(call, written);
  const bool outlives_inference = std::any_of(
      ids.begin(), ids.end(), [&](ValueId id) { return !storage_of(state, id)->inference; });
  if (outlives_inference && call.mode == GradMode::Inference) state.out.mode = GradMode::NoGrad;
  if (*call.op.aten == named_ops().copy_ && call.args[1].kind == Arg::Kind::Value &&
      is_injective(old_type(state, ids.at(0))))
    return write_conformed(state, ids[0], current(state, call.args[1].values[0]), false);
  if (has_functional_form(state, call, written, ids) &&
      replace_by_form(state, call, *functional_form(*call.op.aten)))
    return;
  retype_all(state, call);
  confine(state, call, ids);
}

}  // namespace fulgurite
