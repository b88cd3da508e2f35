#include "ir/rename.h"
#include "ops/named_ops.h"
#include "passes/filter.h"
#include "passes/memory.h"
#include "passes/passes.h"

namespace fulgurite {
namespace {

bool hands_back(const Call& call, ValueId result) {
  bool found = false;
  for_each_value(call.args, [&](ValueId arg) { found |= arg == result; });
  return found;
}

// Contiguous of a contiguous tensor, dropout in evaluation: all results are arguments.
bool only_hands_back(const Call& call) {
  bool any = false, all = true;
  for_each_value(call.results, [&](ValueId id) {
    any = true;
    all &= hands_back(call, id);
  });
  for (const Arg& result : call.results) all &= result.kind != Arg::Kind::Constant;
  return any && all;
}

class Folder {
 public:
  explicit Folder(const Trace& trace)
      : trace_(trace),
        names_(trace.values.size()),
        output_(trace.values.size()),
        retyped_(trace.values.size()),
        written_(trace.storages) {
    for (ValueId id : trace.outputs) output_[id] = true;
    find_retyped(trace.calls);
    for (const Call& call : trace.calls)
      for_each_change(call, [&](ValueId id) { written_[type_of(trace, id).storage] = true; });
  }

  Trace run() {
    return filter_calls(trace_, [&](int32_t, Call& call) {
      names_.apply(call);
      return !folds(call);
    });
  }

 private:
  void find_retyped(const std::vector<Call>& calls) {
    for (const Call& call : calls) {
      for (const Retyped& change : call.retyped) retyped_[change.id] = true;
      find_retyped(call.body);
    }
  }

  bool folds(const Call& call) {
    if (has_effect(call) || !call.retyped.empty()) return false;
    if (only_hands_back(call)) return true;
    if (call.results.size() != 1 || call.results[0].kind != Arg::Kind::Value) return false;
    const ValueId result = call.results[0].values[0];
    const ValueId same = same_view(call, result);
    if (same == kNoValue) return false;
    names_.set(result, same);
    return true;
  }

  // The argument of which `result` is a view that nothing tells from it. An output is a tensor of
  // its own, and so is what changes its geometry later.
  ValueId same_view(const Call& call, ValueId result) const {
    const TensorType& type = type_of(trace_, result);
    if (output_[result] || retyped_[result]) return kNoValue;
    // A write may give the memory a history, which detach() keeps from its result.
    if (call.mode == GradMode::Grad && (type.requires_grad || written_[type.storage]))
      return kNoValue;
    ValueId same = kNoValue;
    for_each_value(call.args, [&](ValueId arg) {
      if (same == kNoValue && !retyped_[arg] && type_of(trace_, arg) == type) same = arg;
    });
    return same;
  }

  const Trace& trace_;
  Renaming names_;
  std::vector<bool> output_, retyped_;
  std::vector<bool> written_;  // by storage
};

// In a trace without writes a copy with the strides of its original tells nothing from it: where
// neither the copy is handed out nor the original written before the copy is last read.
class CopyRemoval {
 public:
  explicit CopyRemoval(const Trace& trace)
      : trace_(trace),
        classes_(trace),
        merged_(trace),
        names_(trace.values.size()),
        changed_(classes_.size()),
        changed_early_(classes_.size()),
        seen_(classes_.size()),
        read_late_(classes_.size()) {
    for (ValueId id : trace.outputs) seen_[storage(id)] = true;
    for (int32_t i = 0; i < static_cast<int32_t>(trace.calls.size()); ++i) look(i);
  }

  Trace run() {
    Trace result = filter_calls(trace_, [&](int32_t i, Call& call) {
      names_.apply(call);
      return i >= trace_.epilogue || !removes(call);
    });
    names_.apply(result.outputs);
    merged_.apply(result);
    return result;
  }

 private:
  StorageId storage(ValueId id) const { return merged_.of(classes_.of(trace_, id)); }

  void look(int32_t i) {
    const bool late = i >= trace_.epilogue;
    for_each_change(trace_.calls[i], [&](ValueId id) {
      changed_[storage(id)] = true;
      if (!late) changed_early_[storage(id)] = true;
    });
    if (late)
      for_each_value(trace_.calls[i].args, [&](ValueId id) { read_late_[storage(id)] = true; });
  }

  bool removes(const Call& call) {
    if (!call.op.aten || !(*call.op.aten == named_ops().clone) || call.mode != trace_.mode)
      return false;
    const ValueId original = call.args[0].values.at(0), copy = call.results[0].values.at(0);
    if (!same_layout(type_of(trace_, original), type_of(trace_, copy))) return false;
    const StorageId from = storage(original), to = storage(copy);
    if (seen_[to] || changed_[to] || changed_early_[from]) return false;
    if (read_late_[to] && changed_[from]) return false;
    names_.set(copy, original);
    merged_.merge(to, from);
    read_late_[from] = read_late_[from] || read_late_[to];
    return true;
  }

  static bool same_layout(const TensorType& a, TensorType b) {
    b.storage = a.storage;
    b.nbytes = a.nbytes;
    b.requires_grad = a.requires_grad;
    return a == b;
  }

  const Trace& trace_;
  const StorageClasses classes_;
  StorageMerge merged_;
  Renaming names_;
  // By storage class: changed anywhere, before the epilogue; of an output; read in the epilogue.
  std::vector<bool> changed_, changed_early_, seen_, read_late_;
};

}  // namespace

Trace fold(const Trace& trace) {
  Trace folded = Folder(trace).run();
  return folded.epilogue < 0 ? folded : CopyRemoval(folded).run();
}

}  // namespace fulgurite
