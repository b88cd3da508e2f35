#include "passes/filter.h"
#include "passes/memory.h"
#include "passes/passes.h"
#include "passes/rename.h"

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
        retyped_(trace.values.size()) {
    for (ValueId id : trace.outputs) output_[id] = true;
    find_retyped(trace.calls);
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
    if (call.mode == GradMode::Grad && type.requires_grad) return kNoValue;
    ValueId same = kNoValue;
    for_each_value(call.args, [&](ValueId arg) {
      if (same == kNoValue && !retyped_[arg] && type_of(trace_, arg) == type) same = arg;
    });
    return same;
  }

  const Trace& trace_;
  Renaming names_;
  std::vector<bool> output_, retyped_;
};

}  // namespace

Trace fold(const Trace& trace) { return Folder(trace).run(); }

}  // namespace fulgurite
