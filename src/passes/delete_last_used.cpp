#include "passes/passes.h"

namespace fulgurite {
namespace {

class LastUses {
 public:
  explicit LastUses(const Trace& trace) : outer_(trace.values.size()), seen_(trace.values.size()) {
    for (const Input& input : trace.inputs) outer_[input.id] = true;
    for (const Call& call : trace.calls)
      for_each_value(call.results, [&](ValueId id) { outer_[id] = true; });
    for (ValueId id : trace.outputs) seen_[id] = true;
  }

  // To be asked of the calls from the last to the first.
  std::vector<ValueId> of(const Call& call) {
    std::vector<ValueId> last;
    look(call, last);
    return last;
  }

 private:
  void look(const Call& call, std::vector<ValueId>& last) {
    const auto use = [&](ValueId id) {
      if (!outer_[id] || seen_[id]) return;
      seen_[id] = true;
      last.push_back(id);
    };
    for_each_value(call.args, use);
    for_each_value(call.results, use);
    for (const Call& inner : call.body) look(inner, last);
  }

  std::vector<bool> outer_;  // not made in a body
  std::vector<bool> seen_;   // used later, or an output
};

}  // namespace

Trace delete_last_used(const Trace& trace) {
  Trace freed = trace;
  LastUses uses(trace);
  for (size_t i = freed.calls.size(); i-- > 0;) freed.calls[i].frees = uses.of(freed.calls[i]);
  return freed;
}

}  // namespace fulgurite
