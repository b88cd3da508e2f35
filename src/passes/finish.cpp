#include "passes/finish.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/layout.h"
#include "ir/rename.h"
#include "ops/facts.h"
#include "ops/named_ops.h"
#include "passes/differentiate.h"
#include "passes/filter.h"
#include "passes/memory.h"

namespace fulgurite {
namespace {

bool changes_geometry(const std::vector<Call>& calls) {
  return std::ranges::any_of(
      calls, [](const Call& call) { return !call.retyped.empty() || changes_geometry(call.body); });
}

// Calls `f(id)` for what `calls` write to in the course of what is differentiated.
template <class F>
void for_each_differentiable_write(const Trace& trace, const std::vector<Call>& calls, F&& f) {
  for (const Call& call : calls) {
    bool differentiable = false;
    for_each_value(call.args,
                   [&](ValueId id) { differentiable |= type_of(trace, id).requires_grad; });
    if (!differentiable || call.mode != GradMode::Grad || !call.op.aten) continue;
    for (int i : written_args(call))
      if (declares_write(call, i))
        for (ValueId id : call.args[i].values)
          if (id != kNoValue) f(id);
  }
}

class Finishing {
 public:
  Finishing(const Trace& trace, bool views)
      : views_(views), core_(trace), finish_(without_calls(trace)) {
    for (const Input& input : trace.inputs) given_.insert(input.id);
  }

  Finished run() {
    finish_.name = "finish";
    finish_.provenance.clear();
    finish_.epilogue = -1;
    while (replace_written()) {
    }
    find_makers();
    take_views();
    std::vector<ValueId> results;
    const auto give = [&](ValueId id) {
      if (!given_.contains(id) && !taken_.contains(id) && !std::ranges::count(results, id))
        results.push_back(id);
    };
    std::ranges::for_each(core_.outputs, give);
    for (const auto& [copy, input] : written_) give(copy);
    std::ranges::for_each(bases_, give);
    make_finish(results);
    core_.outputs = results;
    core_.output_tree = flat_tree(static_cast<int32_t>(results.size()));
    std::vector<size_t> written;
    for (size_t i = 0; i < core_.inputs.size(); ++i)
      for (const auto& [copy, input] : written_)
        if (input == core_.inputs[i].id) written.push_back(i);
    return {std::move(core_), std::move(finish_), std::move(written)};
  }

 private:
  // The core writes to a copy of an input that gets a history.
  bool replace_written() {
    std::vector<ValueId> found;
    for_each_differentiable_write(core_, core_.calls, [&](ValueId id) {
      const StorageId storage = type_of(core_, id).storage;
      for (const Input& input : core_.inputs)
        if (type_of(core_, input.id).storage == storage && !std::ranges::count(found, input.id))
          found.push_back(input.id);
    });
    std::erase_if(found, [&](ValueId id) { return !can_be_copied(id); });
    for (ValueId id : found) replace_by_copy(id);
    return !found.empty();
  }

  bool can_be_copied(ValueId id) const {
    const TensorType& type = type_of(core_, id);
    const auto shares = [&](const Input& input) {
      return type_of(core_, input.id).storage == type.storage;
    };
    return is_dense(type) && type.offset == 0 && !type.conj && !type.neg &&
           std::ranges::count_if(core_.inputs, shares) == 1;
  }

  void replace_by_copy(ValueId id) {
    TensorType type = type_of(core_, id);
    const StorageId before = type.storage, after = core_.storages++;
    for (Value& value : core_.values)
      if (value.type.storage == before) value.type.storage = after;
    core_.values[id].type.storage = before;
    type.storage = after;
    type.requires_grad = true;
    const ValueId copy = add_value(core_, type);
    Renaming renaming(core_.values.size());
    renaming.set(id, copy);
    for (Call& call : core_.calls) renaming.apply(call);
    renaming.apply(core_.outputs);
    Call call;
    call.op = named_ops().clone;
    call.args = {Arg::of(id), Arg::literal({})};
    call.results = {Arg::of(copy)};
    call.mode = core_.mode;
    core_.calls.insert(core_.calls.begin(), std::move(call));
    written_.emplace_back(copy, id);
  }

  void find_makers() {
    maker_.assign(core_.values.size(), -1);
    for (size_t i = 0; i < core_.calls.size(); ++i)
      for_each_value(core_.calls[i].results, [&](ValueId id) {
        if (makes(core_.calls[i], id)) maker_[id] = static_cast<int32_t>(i);
      });
  }

  // Of a value that is a view: what it is a view of, by the call that makes it; kNoValue: of none.
  ValueId viewed(ValueId id) const {
    if (maker_[id] < 0) return kNoValue;
    ValueId found = kNoValue;
    for_each_value(core_.calls[maker_[id]].args, [&](ValueId arg) {
      if (type_of(core_, arg).storage == type_of(core_, id).storage) found = arg;
    });
    return found;
  }

  // A call that can be run after the core: all it makes are views of one value.
  bool is_repeatable(const Call& call, ValueId of) const {
    bool repeatable =
        call.op.aten && !has_effect(call) && !must_run(call) && call.mode != GradMode::Inference;
    for_each_value(call.results, [&](ValueId id) {
      repeatable &= type_of(core_, id).storage == type_of(core_, of).storage;
    });
    for_each_value(call.args, [&](ValueId id) { repeatable &= id == of || given_.contains(id); });
    return repeatable;
  }

  bool is_shared(ValueId id) const {
    const StorageId storage = type_of(core_, id).storage;
    const auto shares = [&](ValueId other) {
      return other != id && type_of(core_, other).storage == storage;
    };
    return views_ || std::ranges::any_of(core_.outputs, shares) ||
           std::ranges::any_of(given_, shares) ||
           std::ranges::any_of(written_, [&](const auto& pair) { return shares(pair.first); });
  }

  void take_views() {
    for (ValueId id : core_.outputs)
      if (!given_.contains(id) && !is_copy(id) && is_shared(id)) take(id);
    // Writes through views may have given a history to what was made without one.
    for (ValueId id : bases_) {
      bool requires_grad = type_of(core_, id).requires_grad;
      for (ValueId view : taken_)
        requires_grad |= type_of(core_, view).storage == type_of(core_, id).storage &&
                         type_of(core_, view).requires_grad;
      core_.values[id].type.requires_grad = requires_grad;
    }
  }

  bool is_copy(ValueId id) const {
    return std::ranges::any_of(written_, [&](const auto& pair) { return pair.first == id; });
  }

  void take(ValueId output) {
    std::vector<int32_t> chain;
    ValueId base = output;
    for (ValueId next; (next = viewed(base)) != kNoValue; base = next) {
      if (!is_repeatable(core_.calls[maker_[base]], next)) return;
      chain.push_back(maker_[base]);
    }
    if (chain.empty()) return;
    taken_.insert(output);
    repeated_.insert(repeated_.end(), chain.begin(), chain.end());
    if (!given_.contains(base) && !is_copy(base) && !std::ranges::count(core_.outputs, base) &&
        !std::ranges::count(bases_, base))
      bases_.push_back(base);
  }

  void make_finish(const std::vector<ValueId>& results) {
    std::vector<ValueId> outputs = core_.outputs;
    finish_.values = core_.values;
    finish_.storages = core_.storages;
    for (ValueId id : results) finish_.inputs.push_back({id, InputKind::Saved, ""});
    Renaming renaming(finish_.values.size());
    for (const auto& [copy, input] : written_) {
      Call write;
      write.op = named_ops().copy_;
      write.args = {Arg::of(input), Arg::of(copy), Arg::literal(false)};
      write.results = {Arg::of(input)};
      write.mode = finish_.mode;
      finish_.calls.push_back(std::move(write));
    }
    std::ranges::sort(repeated_);
    const auto repeats = std::ranges::unique(repeated_);
    repeated_.erase(repeats.begin(), repeats.end());
    for (const auto& [copy, input] : written_) renaming.set(copy, input);
    for (int32_t i : repeated_) {
      finish_.calls.push_back(core_.calls[i]);
      finish_.calls.back().body.clear();
      renaming.apply(finish_.calls.back());
    }
    renaming.apply(outputs);
    finish_.outputs = std::move(outputs);
  }

  const bool views_;
  Trace core_, finish_;
  std::unordered_set<ValueId> given_;
  std::vector<std::pair<ValueId, ValueId>> written_;  // the copy in the core, the input
  std::vector<int32_t> maker_;                        // by value of the core: a call; -1: none
  std::unordered_set<ValueId> taken_;                 // results that are made afterwards
  std::vector<ValueId> bases_;                        // returned by the core for their sake
  std::vector<int32_t> repeated_;                     // calls of the core
};

}  // namespace

Finished finish_outside(const Trace& trace, bool views) {
  if (!changes_geometry(trace.calls)) {
    Finished found = Finishing(trace, views).run();
    if (!found.finish.calls.empty()) return found;
  }
  return {trace, without_calls(trace), {}};
}

}  // namespace fulgurite
