#include <algorithm>

#include "ops/facts.h"
#include "ops/list_form.h"
#include "passes/passes.h"

namespace fulgurite {
namespace {

bool records_nothing(const Trace& trace, const std::vector<Call>& calls) {
  return std::ranges::all_of(calls, [&](const Call& call) {
    if (call.gradient || !call.retyped.empty()) return false;
    if (call.mode == GradMode::Grad) {
      bool touches = false;
      const auto look = [&](ValueId id) { touches |= type_of(trace, id).requires_grad; };
      for_each_value(call.args, look);
      for_each_value(call.results, look);
      // A view remembers in which mode it was made.
      if (touches || (call.op.aten && facts_of(*call.op.aten).is_view)) return false;
    }
    return records_nothing(trace, call.body);
  });
}

// Writes lists as a whole: without such writes all of it would be copied, and copied back.
bool writes_lists(const Call& call) {
  for (int i : written_args(call)) {
    if (call.args[i].kind != Arg::Kind::ValueList) continue;
    const auto& form = functional_form(*call.op.aten);
    if (!form || !form_of_each(form->op)) return true;
  }
  return std::ranges::any_of(call.body, writes_lists);
}

bool hands_out_history(const Trace& trace) {
  return std::ranges::any_of(trace.outputs, [&](ValueId id) {
    return type_of(trace, id).requires_grad &&
           std::ranges::find(trace.inputs, id, &Input::id) == trace.inputs.end();
  });
}

void drop(std::vector<Call>& calls) {
  for (Call& call : calls) {
    if (call.mode == GradMode::Grad) call.mode = GradMode::NoGrad;
    drop(call.body);
  }
}

}  // namespace

Trace drop_grad_mode(const Trace& trace) {
  Trace result = trace;
  if (trace.mode != GradMode::Grad || hands_out_history(trace) ||
      !records_nothing(trace, trace.calls) || std::ranges::any_of(trace.calls, writes_lists))
    return result;
  result.mode = GradMode::NoGrad;
  drop(result.calls);
  return result;
}

}  // namespace fulgurite
