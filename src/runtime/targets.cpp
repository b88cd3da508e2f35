#include "runtime/targets.h"

#include <algorithm>

#include "ir/number_argument.h"
#include "ops/catalogue.h"
#include "ops/facts.h"
#include "ops/kernel_errors.h"
#include "ops/named_ops.h"

namespace fulgurite {
namespace {

bool is_region(const Call& call) { return !call.op.aten && !call.gradient; }

class Search {
 public:
  Search(const Trace& trace, const std::function<bool(const Call&)>& checks)
      : trace_(trace), uses_(trace.storages), maker_(trace.values.size(), -1) {
    for (int32_t i = 0; i < count(); ++i) look(trace.calls[i], i);
    for (ValueId id : trace.outputs) is_output_.push_back(type_of(trace, id).storage);
    for (int32_t i = 0; i < count(); ++i)
      if (may_raise_for_data(trace.calls[i], checks)) last_raising_ = i;
  }

  Targets run() {
    Targets targets;
    for (int32_t i = trace_.epilogue; i < count(); ++i) {
      const Call& copy = trace_.calls[i];
      if (!copy.op.aten || *copy.op.aten != named_ops().copy_) continue;
      if (copy.args[1].kind != Arg::Kind::Value) continue;
      const ValueId input = copy.args[0].values[0], value = copy.args[1].values[0];
      if (!fits(i, input, value)) continue;
      const Call& region = trace_.calls[maker_[value]];
      std::vector<ValueId>& all = targets[&region];
      all.resize(region.results.size(), kNoValue);
      for (size_t k = 0; k < all.size(); ++k)
        if (region.results[k].values[0] == value) all[k] = input;
    }
    return targets;
  }

 private:
  int32_t count() const { return static_cast<int32_t>(trace_.calls.size()); }

  void look(const Call& call, int32_t i) {
    const auto use = [&](ValueId id) {
      auto& uses = uses_[type_of(trace_, id).storage];
      if (uses.empty() || uses.back() != i) uses.push_back(i);
    };
    for_each_value(call.args, use);
    for_each_value(call.results, use);
    for_each_value(call.results, [&](ValueId id) {
      if (maker_[id] < 0) maker_[id] = i;
    });
  }

  static bool may_raise_of(const Trace& trace, const Call& call) {
    const c10::OperatorHandle& op = *call.op.aten;
    if (is_item(op) || is_arithmetic(op) || facts_of(op).is_view || op == named_ops().copy_)
      return false;
    if (in_effectful_namespace(op.schema().name())) return false;
    const OpRecord* record = find_record(op);
    return !record || !(record->pointwise || record->move) || may_raise(trace, call);
  }

  bool may_raise_for_data(const Call& call, const std::function<bool(const Call&)>& checks) const {
    return call.op.aten ? may_raise_of(trace_, call) : call.gradient || checks(call);
  }

  bool fits(int32_t copy, ValueId input, ValueId value) const {
    const TensorType &to = type_of(trace_, input), &from = type_of(trace_, value);
    const int32_t made = maker_[value];
    if (made < 0 || made < last_raising_ || !is_region(trace_.calls[made])) return false;
    if (to.dtype != from.dtype || to.sizes != from.sizes || to.strides != from.strides || to.conj ||
        to.neg || from.conj || from.neg || to.storage == from.storage)
      return false;
    if (std::ranges::find(trace_.inputs, input, &Input::id) == trace_.inputs.end()) return false;
    if (std::ranges::find(is_output_, from.storage) != is_output_.end()) return false;
    for (int32_t use : uses_[to.storage])
      if (use > made && use != copy) return false;
    return std::ranges::all_of(uses_[from.storage], [&](int32_t use) {
      if (use == made || use == copy) return true;
      // Others would see a tensor that requires grad.
      return use < trace_.epilogue && (!to.requires_grad || is_region(trace_.calls[use]));
    });
  }

  const Trace& trace_;
  std::vector<std::vector<int32_t>> uses_;  // by storage: calls
  std::vector<int32_t> maker_;              // by value: a call, or -1
  std::vector<StorageId> is_output_;
  int32_t last_raising_ = -1;
};

}  // namespace

Targets find_targets(const Trace& trace, const std::function<bool(const Call&)>& checks) {
  if (trace.epilogue < 0) return {};
  return Search(trace, checks).run();
}

}  // namespace fulgurite
