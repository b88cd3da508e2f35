#include <cstring>

#include "ir/literal.h"
#include "ir/rename.h"
#include "passes/filter.h"
#include "passes/memory.h"
#include "passes/passes.h"

namespace fulgurite {
namespace {

// Stricter than `same_constant`: a NaN equals only a NaN of the same bits.
bool same_bits(const c10::IValue& a, const c10::IValue& b) {
  if (!same_constant(a, b)) return false;
  if (a.isDouble()) {
    const double x = a.toDouble(), y = b.toDouble();
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (a.isTensor() && a.toTensor().defined())
    return same_bits(wrapped_number(a.toTensor()), wrapped_number(b.toTensor()));
  if (!a.isList()) return true;
  const auto left = a.toListRef(), right = b.toListRef();
  for (size_t i = 0; i < left.size(); ++i)
    if (!same_bits(left[i], right[i])) return false;
  return true;
}

bool same_arg(const Arg& a, const Arg& b) {
  return a.kind == b.kind && a.values == b.values &&
         (a.kind != Arg::Kind::Constant || same_bits(a.constant, b.constant));
}

// The same but for the storage.
bool same_result(const TensorType& a, TensorType b) {
  b.storage = a.storage;
  return a == b;
}

std::vector<ValueId> values_of(const std::vector<Arg>& args) {
  std::vector<ValueId> ids;
  for_each_value(args, [&](ValueId id) { ids.push_back(id); });
  return ids;
}

Call without_body(const Call& call) {
  Call copy;
  copy.op = call.op;
  copy.args = call.args;
  copy.results = call.results;
  copy.mode = call.mode;
  return copy;
}

class Merger {
 public:
  Merger(const Trace& trace, const std::unordered_set<ValueId>& apart)
      : trace_(trace),
        apart_(apart),
        classes_(trace),
        merged_(trace),
        names_(trace.values.size()),
        changed_(classes_.size()),
        seen_(classes_.size()),
        version_(classes_.size()),
        is_output_(trace.values.size()) {
    for (const Call& call : trace.calls)
      for_each_change(call, [&](ValueId id) { changed_[storage(id)] = true; });
    for (const Input& input : trace.inputs) seen_[storage(input.id)] = true;
    for (ValueId id : trace.outputs) is_output_[id] = seen_[storage(id)] = true;
  }

  Trace run() {
    Trace result = filter_calls(trace_, [&](int32_t i, Call& call) {
      names_.apply(call);
      const bool in_epilogue = trace_.epilogue >= 0 && i >= trace_.epilogue;
      if (!in_epilogue && may_merge(call) && merge(call)) return false;
      for_each_change(call, [&](ValueId id) { ++version_[storage(id)]; });
      return true;
    });
    names_.apply(result.outputs);
    merged_.apply(result);
    return result;
  }

 private:
  struct Candidate {
    Call call;
    std::vector<int> versions;  // of what its arguments' storages held
  };

  StorageId storage(ValueId id) const { return classes_.of(trace_, id); }

  bool may_merge(const Call& call) const {
    // Regions of one name may have different bodies.
    if (!call.op.aten || has_effect(call) || call.results.empty()) return false;
    bool may = true;
    for (const Arg& result : call.results) may &= result.kind != Arg::Kind::Constant;
    for_each_value(call.results, [&](ValueId id) {
      const bool differentiable = call.mode == GradMode::Grad && type_of(trace_, id).requires_grad;
      // Gradients of one value that is used twice are summed in another order than those of two.
      may &= !differentiable && !changed_[storage(id)];
      // An argument handed back.
      for_each_value(call.args, [&](ValueId arg) { may &= arg != id; });
    });
    return may;
  }

  std::vector<int> versions_of(const Call& call) const {
    std::vector<int> versions;
    for_each_value(call.args, [&](ValueId id) { versions.push_back(version_[storage(id)]); });
    return versions;
  }

  static size_t hash(const Call& call) {
    size_t h = std::hash<c10::OperatorHandle>()(*call.op.aten);
    for_each_value(call.args, [&](ValueId id) { h = h * 31 + static_cast<size_t>(id); });
    for (const Arg& arg : call.args)
      if (arg.constant.isInt()) h = h * 31 + static_cast<size_t>(arg.constant.toInt());
    return h;
  }

  bool merge(const Call& call) {
    auto& bucket = candidates_[hash(call)];
    const std::vector<int> versions = versions_of(call);
    for (const Candidate& candidate : bucket) {
      const Call& kept = candidate.call;
      if (candidate.versions != versions || !same_call(kept, call)) continue;
      if (could_be_seen(kept, call) || is_apart(kept) != is_apart(call)) continue;
      replace(call, kept);
      return true;
    }
    bucket.push_back({without_body(call), versions});
    return false;
  }

  bool is_apart(const Call& call) const {
    bool found = false;
    for_each_value(call.results, [&](ValueId id) { found |= apart_.contains(id); });
    return found;
  }

  bool same_call(const Call& a, const Call& b) const {
    if (!(a.op == b.op) || a.mode != b.mode) return false;
    if (!std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(), same_arg))
      return false;
    const auto left = values_of(a.results), right = values_of(b.results);
    return std::equal(
        left.begin(), left.end(), right.begin(), right.end(),
        [&](ValueId x, ValueId y) { return same_result(type_of(trace_, x), type_of(trace_, y)); });
  }

  // Two outputs would be one tensor, or would share memory that they did not share.
  bool could_be_seen(const Call& kept, const Call& dropped) const {
    const auto left = values_of(kept.results), right = values_of(dropped.results);
    for (size_t i = 0; i < left.size(); ++i) {
      if (is_output_[left[i]] && is_output_[right[i]]) return true;
      const StorageId a = merged_.of(storage(left[i])), b = merged_.of(storage(right[i]));
      if (a != b && seen_[a] && seen_[b]) return true;
    }
    return false;
  }

  void replace(const Call& dropped, const Call& kept) {
    const auto left = values_of(kept.results), right = values_of(dropped.results);
    for (size_t i = 0; i < left.size(); ++i) {
      names_.set(right[i], left[i]);
      is_output_[left[i]] = is_output_[left[i]] || is_output_[right[i]];
      const StorageId a = merged_.of(storage(left[i])), b = merged_.of(storage(right[i]));
      seen_[a] = seen_[a] || seen_[b];
      merged_.merge(b, a);
    }
  }

  const Trace& trace_;
  const std::unordered_set<ValueId>& apart_;
  const StorageClasses classes_;
  StorageMerge merged_;
  Renaming names_;
  std::vector<bool> changed_;  // by storage class: written, or its geometry changed, anywhere
  std::vector<bool> seen_;     // by storage class: of an input or an output
  std::vector<int> version_;   // by storage class: counts changes
  std::vector<bool> is_output_;
  std::unordered_map<size_t, std::vector<Candidate>> candidates_;
};

}  // namespace

Trace common_subexpressions(const Trace& trace, const std::unordered_set<ValueId>& apart) {
  return Merger(trace, apart).run();
}

}  // namespace fulgurite
