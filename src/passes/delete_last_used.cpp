#include <unordered_set>

#include "passes/passes.h"

namespace fulgurite {
namespace {

class LastUses {
 public:
  LastUses(const std::vector<Call>& calls, const std::vector<ValueId>& inputs,
           const std::vector<ValueId>& outputs)
      : outer_(inputs.begin(), inputs.end()), seen_(outputs.begin(), outputs.end()) {
    for (const Call& call : calls)
      for_each_value(call.results, [&](ValueId id) { outer_.insert(id); });
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
      if (outer_.contains(id) && seen_.insert(id).second) last.push_back(id);
    };
    for_each_value(call.args, use);
    for_each_value(call.results, use);
    for (const Call& inner : call.body) look(inner, last);
  }

  std::unordered_set<ValueId> outer_;  // not made in a body
  std::unordered_set<ValueId> seen_;   // used later, or an output
};

}  // namespace

void free_last_used(std::vector<Call>& calls, const std::vector<ValueId>& inputs,
                    const std::vector<ValueId>& outputs) {
  LastUses uses(calls, inputs, outputs);
  for (size_t i = calls.size(); i-- > 0;) calls[i].frees = uses.of(calls[i]);
}

Trace delete_last_used(const Trace& trace) {
  Trace freed = trace;
  std::vector<ValueId> inputs;
  for (const Input& input : trace.inputs) inputs.push_back(input.id);
  free_last_used(freed.calls, inputs, trace.outputs);
  return freed;
}

}  // namespace fulgurite
