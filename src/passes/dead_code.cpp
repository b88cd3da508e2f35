#include "ops/kernel_errors.h"
#include "passes/filter.h"
#include "passes/memory.h"
#include "passes/passes.h"

namespace fulgurite {
namespace {

// Walks backwards: what is read later is known when a call is looked at.
class Liveness {
 public:
  explicit Liveness(const Trace& trace)
      : trace_(trace), classes_(trace), value_(trace.values.size()), memory_(classes_.size()) {
    for (const Input& input : trace.inputs) memory_[classes_.of(trace, input.id)] = true;
    for (ValueId id : trace.outputs) read(id);
  }

  bool needs(const Call& call) {
    if (!is_needed(call)) return false;
    read_arguments(call);
    return true;
  }

 private:
  bool is_needed(const Call& call) const {
    if (must_run(call)) return true;
    bool needed = false;
    for_each_value(call.results, [&](ValueId id) { needed |= value_[id]; });
    for_each_change(call, [&](ValueId id) { needed |= memory_[classes_.of(trace_, id)]; });
    return needed || may_raise(trace_, call);
  }

  void read_arguments(const Call& call) {
    for_each_value(call.args, [&](ValueId id) { read(id); });
    for (const Call& inner : call.body) read_arguments(inner);
  }

  void read(ValueId id) {
    value_[id] = true;
    memory_[classes_.of(trace_, id)] = true;
  }

  const Trace& trace_;
  const StorageClasses classes_;
  std::vector<bool> value_;   // used later
  std::vector<bool> memory_;  // by storage class: may be read later, or seen by the caller
};

}  // namespace

Trace dead_code(const Trace& trace) {
  Liveness liveness(trace);
  std::vector<bool> needed(trace.calls.size());
  for (size_t i = trace.calls.size(); i-- > 0;) needed[i] = liveness.needs(trace.calls[i]);

  return filter_calls(trace, [&](int32_t i, const Call&) { return needed[i]; });
}

}  // namespace fulgurite
