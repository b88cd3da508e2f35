#include "passes/split.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "ops/facts.h"
#include "passes/filter.h"
#include "passes/memory.h"
#include "passes/passes.h"

namespace fulgurite {
namespace {

class Splitting {
 public:
  Splitting(const Joint& joint, const Recomputation& recomputation)
      : trace_(joint.trace),
        recomputation_(recomputation),
        results_(trace_.outputs.size() - joint.gradient_of.size()),
        statistics_(joint.statistics),
        depends_(trace_.values.size(), false),
        depends_storage_(static_cast<size_t>(trace_.storages), false),
        backward_(trace_.calls.size(), false) {
    for (const Input& input : trace_.inputs) {
      given_.insert(input.id);
      if (input.kind == InputKind::Gradient) depends_[input.id] = true;
    }
  }

  Halves run() {
    find_backward();
    check_writes();
    std::vector<size_t> forward;
    for (size_t i = 0; i < backward_.size(); ++i)
      if (!backward_[i]) forward.push_back(i);
    const std::vector<ValueId> used = needed();
    halves_.reasons = saved_values(trace_, forward, used, recomputation_);
    std::ranges::sort(halves_.reasons, {}, &SavedValue::id);
    for (const SavedValue& value : halves_.reasons) halves_.saved.push_back(value.id);
    count_bytes(used);
    check_saved();
    make_backward();
    make_forward();
    return std::move(halves_);
  }

 private:
  size_t epilogue() const {
    return trace_.epilogue < 0 ? trace_.calls.size() : static_cast<size_t>(trace_.epilogue);
  }

  // What a backward call writes to belongs to the backward pass from the start.
  void find_backward() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < epilogue(); ++i) {
        if (backward_[i] || !depends(trace_.calls[i])) continue;
        backward_[i] = changed = true;
        const auto mark = [&](ValueId id) { depends_[id] = true; };
        for_each_value(trace_.calls[i].results, mark);
        for_each_change(trace_.calls[i], [&](ValueId id) {
          depends_storage_[static_cast<size_t>(type_of(trace_, id).storage)] = true;
        });
      }
    }
  }

  bool depends(const Call& call) const {
    bool found = false;
    const auto look = [&](ValueId id) {
      found |= depends_[id] || depends_storage_[static_cast<size_t>(type_of(trace_, id).storage)];
    };
    for_each_value(call.args, look);
    for_each_value(call.results, look);
    return found;
  }

  void check_writes() const {
    std::unordered_set<StorageId> written;
    for (size_t i = epilogue(); i < trace_.calls.size(); ++i)
      for_each_change(trace_.calls[i],
                      [&](ValueId id) { written.insert(type_of(trace_, id).storage); });
    for (size_t i : statistics_) written.erase(type_of(trace_, trace_.inputs[i].id).storage);
    for (size_t i = 0; i < results_; ++i)
      if (depends_[trace_.outputs[i]])
        throw Unsupported("its backward pass writes to what the forward one returns");
    for (size_t i = 0; i < backward_.size(); ++i) {
      if (!backward_[i]) continue;
      const Call& call = trace_.calls[i];
      if (must_run(call)) throw Unsupported("its backward pass has effects");
      for_each_change(call, [&](ValueId id) {
        if (given_.contains(id)) throw Unsupported("its backward pass writes to an input");
      });
      for_each_value(call.args, [&](ValueId id) {
        if (written.contains(type_of(trace_, id).storage))
          throw Unsupported("its gradient needs an input that it writes to");
      });
    }
  }

  void check_saved() const {
    for (ValueId id : halves_.saved)
      for (size_t i = 0; i < results_; ++i) {
        const ValueId result = trace_.outputs[i];
        if (result != id && !given_.contains(id) &&
            type_of(trace_, result).storage == type_of(trace_, id).storage)
          throw SharesSaved();
      }
  }

  // Values of the forward pass that the backward one uses, or hands out.
  std::vector<ValueId> needed() const {
    std::vector<ValueId> found;
    std::unordered_set<ValueId> seen;
    const auto need = [&](ValueId id) {
      if (!depends_[id] && seen.insert(id).second) found.push_back(id);
    };
    for (size_t i = 0; i < backward_.size(); ++i)
      if (backward_[i]) for_each_value(trace_.calls[i].args, need);
    for (size_t i = results_; i < trace_.outputs.size(); ++i) need(trace_.outputs[i]);
    return found;
  }

  void count_bytes(const std::vector<ValueId>& used) {
    std::unordered_set<StorageId> seen;
    for (ValueId id : given_) seen.insert(type_of(trace_, id).storage);
    for (ValueId id : used)
      if (seen.insert(type_of(trace_, id).storage).second)
        halves_.bytes_needed += type_of(trace_, id).nbytes;
  }

  void make_backward() {
    Trace& trace = halves_.backward;
    trace = without_calls(trace_);
    trace.name = "backward";
    trace.epilogue = -1;
    trace.inputs.clear();
    for (const Input& input : trace_.inputs)
      if (input.kind == InputKind::Gradient) trace.inputs.push_back(input);
    for (ValueId id : halves_.saved) trace.inputs.push_back(as_saved(id));
    trace.outputs.assign(trace_.outputs.begin() + static_cast<std::ptrdiff_t>(results_),
                         trace_.outputs.end());
    trace.output_tree = flat_tree(static_cast<int32_t>(trace.outputs.size()));
    find_makers();
    for (size_t i = 0; i < epilogue(); ++i)
      if (backward_[i]) emit(i);
    for (ValueId id : trace.outputs)
      if (maker_[id] >= 0) emit(static_cast<size_t>(maker_[id]));
    trace = dead_code(trace);
  }

  // The forward calls whose results may be asked for anew: not those of what is saved.
  void find_makers() {
    maker_.assign(trace_.values.size(), -1);
    emitted_.assign(trace_.calls.size(), false);
    const std::unordered_set<ValueId> saved(halves_.saved.begin(), halves_.saved.end());
    for (size_t i = 0; i < epilogue(); ++i)
      for_each_value(trace_.calls[i].results, [&](ValueId id) {
        if (!saved.contains(id) && makes(trace_.calls[i], id)) maker_[id] = static_cast<int32_t>(i);
      });
  }

  // What is computed again comes right before its first use.
  void emit(size_t i) {
    std::vector<size_t> open{i};
    while (!open.empty()) {
      const size_t at = open.back();
      bool ready = true;
      if (!emitted_[at])
        for_each_value(trace_.calls[at].args, [&](ValueId id) {
          const int32_t maker = maker_[id];
          if (maker < 0 || static_cast<size_t>(maker) == at || emitted_[maker]) return;
          open.push_back(static_cast<size_t>(maker));
          ready = false;
        });
      if (!ready) continue;
      open.pop_back();
      if (emitted_[at]) continue;
      emitted_[at] = true;
      halves_.backward.calls.push_back(trace_.calls[at]);
    }
  }

  Input as_saved(ValueId id) const {
    const auto given = std::ranges::find(trace_.inputs, id, &Input::id);
    return {id, InputKind::Saved, given == trace_.inputs.end() ? "" : given->path};
  }

  void make_forward() {
    Trace& trace = halves_.forward;
    trace = without_calls(trace_);
    trace.epilogue = -1;
    std::erase_if(trace.inputs,
                  [](const Input& input) { return input.kind == InputKind::Gradient; });
    trace.outputs.resize(results_);
    for (ValueId id : halves_.saved)
      if (!given_.contains(id) && std::ranges::count(trace.outputs, id) == 0)
        trace.outputs.push_back(id);
    trace.output_tree = flat_tree(static_cast<int32_t>(trace.outputs.size()));
    for (size_t i = 0; i < trace_.calls.size(); ++i) {
      if (static_cast<int32_t>(i) == trace_.epilogue)
        trace.epilogue = static_cast<int32_t>(trace.calls.size());
      if (!backward_[i]) trace.calls.push_back(trace_.calls[i]);
    }
    if (trace_.epilogue == static_cast<int32_t>(trace_.calls.size()))
      trace.epilogue = static_cast<int32_t>(trace.calls.size());
    trace = dead_code(trace);
  }

  const Trace& trace_;
  const Recomputation& recomputation_;
  const size_t results_;  // how many outputs are no gradients
  const std::vector<size_t>& statistics_;
  std::vector<bool> depends_;          // by value: on a gradient that comes in
  std::vector<bool> depends_storage_;  // what is in it
  std::vector<bool> backward_;         // by call
  std::vector<int32_t> maker_;         // by value: the call that makes it, -1 for what is there
  std::vector<bool> emitted_;          // by call: it is in the backward trace
  std::unordered_set<ValueId> given_;
  Halves halves_;
};

}  // namespace

Halves split(const Joint& joint, const Recomputation& recomputation) {
  return Splitting(joint, recomputation).run();
}

}  // namespace fulgurite
