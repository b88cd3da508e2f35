#include "capture/normalise.h"

#include <algorithm>

namespace fulgurite {
namespace {

// Goes through the program backwards with the set of values that are used later.
class Opener {
 public:
  explicit Opener(const Trace& trace) : used_(trace.values.size()) {
    for (ValueId id : trace.outputs) used_[id] = true;
  }

  std::vector<Call> run(std::vector<Call> calls) {
    std::vector<Call> reversed;
    reversed.reserve(calls.size());
    visit(calls, reversed);
    std::reverse(reversed.begin(), reversed.end());
    return reversed;
  }

 private:
  void visit(std::vector<Call>& calls, std::vector<Call>& reversed) {
    for (size_t i = calls.size(); i-- > 0;) {
      Call& call = calls[i];
      if (escapes(call)) {
        for (Call& part : call.body) {
          part.source = call.source;
          part.module = call.module;
        }
        visit(call.body, reversed);
        continue;
      }
      for_each_value(call.args, [&](ValueId id) { used_[id] = true; });
      reversed.push_back(std::move(call));
    }
  }

  // A value made inside of `call`, and not by it, is used later.
  bool escapes(const Call& call) {
    return std::any_of(call.body.begin(), call.body.end(), [&](const Call& part) {
      return hides_used(part, call) || escapes_into(part, call);
    });
  }
  bool escapes_into(const Call& part, const Call& call) {
    return std::any_of(part.body.begin(), part.body.end(), [&](const Call& inner) {
      return hides_used(inner, call) || escapes_into(inner, call);
    });
  }
  bool hides_used(const Call& part, const Call& call) {
    bool hidden = false;
    for_each_value(part.results, [&](ValueId id) {
      hidden |= used_[id] && !mentions(part.args, id) && !mentions(call.results, id);
    });
    return hidden;
  }
  static bool mentions(const std::vector<Arg>& args, ValueId id) {
    bool found = false;
    for_each_value(args, [&](ValueId other) { found |= other == id; });
    return found;
  }

  std::vector<bool> used_;
};

bool any_requires_grad(const Trace& trace) {
  const auto requires_grad = [&](ValueId id) { return trace.values[id].type.requires_grad; };
  for (const Input& input : trace.inputs)
    if (requires_grad(input.id)) return true;
  bool found = false;
  for (const Call& call : trace.calls)
    for_each_value(call.results, [&](ValueId id) { found |= requires_grad(id); });
  return found;
}

// Without anything to differentiate, grad mode and no_grad are the same.
void drop_grad_mode(std::vector<Call>& calls) {
  for (Call& call : calls) {
    if (call.mode == GradMode::Grad) call.mode = GradMode::NoGrad;
    drop_grad_mode(call.body);
  }
}

}  // namespace

Trace normalise(Trace trace, GradMode entry_mode) {
  trace.calls = Opener(trace).run(std::move(trace.calls));
  trace.mode = entry_mode;
  if (entry_mode != GradMode::Inference && !any_requires_grad(trace)) {
    trace.mode = GradMode::NoGrad;
    drop_grad_mode(trace.calls);
  }
  return trace;
}

}  // namespace fulgurite
