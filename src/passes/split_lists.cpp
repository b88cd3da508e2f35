#include <algorithm>

#include "ops/list_form.h"
#include "passes/filter.h"
#include "passes/passes.h"

namespace fulgurite {
namespace {

// Number `i` of a list, or the argument itself.
Arg element(const Arg& arg, bool is_list, size_t i) {
  if (!is_list) return arg;
  if (arg.kind == Arg::Kind::ValueList) return Arg::of(arg.values[i]);
  return Arg::literal(arg.constant.toListRef().at(i));
}

bool is_on_cpu(const Trace& trace, const Call& call) {
  bool elsewhere = false;
  const auto look = [&](ValueId id) {
    elsewhere |= id == kNoValue || !type_of(trace, id).device.is_cpu();
  };
  for (const Arg& arg : call.args) std::ranges::for_each(arg.values, look);
  for (const Arg& arg : call.results) std::ranges::for_each(arg.values, look);
  return !elsewhere;
}

void split(const Call& call, const c10::OperatorHandle& form, std::vector<Call>& calls) {
  const auto& lists = call.op.aten->schema().arguments();
  const auto& wanted = form.schema().arguments();
  const auto& results = call.results[0].values;
  for (size_t i = 0; i < results.size(); ++i) {
    Call one;
    one.op = form;
    one.mode = call.mode;
    one.source = call.source;
    one.module = call.module;
    for (size_t k = 0; k < call.args.size(); ++k) {
      const bool is_list = lists[k].type()->kind() == c10::TypeKind::ListType;
      one.args.push_back(element(call.args[k], is_list, i));
    }
    for (size_t k = call.args.size(); k < wanted.size(); ++k)
      one.args.push_back(Arg::literal(*wanted[k].default_value()));
    one.results.push_back(Arg::of(results[i]));
    calls.push_back(std::move(one));
  }
}

}  // namespace

Trace split_lists(const Trace& trace) {
  Trace result = without_calls(trace);
  for (size_t i = 0; i < trace.calls.size(); ++i) {
    if (static_cast<int32_t>(i) == trace.epilogue)
      result.epilogue = static_cast<int32_t>(result.calls.size());
    const Call& call = trace.calls[i];
    const auto* form = call.op.aten ? &form_of_each(*call.op.aten) : nullptr;
    if (form && *form && call.mode != GradMode::Grad && is_on_cpu(trace, call))
      split(call, **form, result.calls);
    else
      result.calls.push_back(call);
  }
  if (trace.epilogue == static_cast<int32_t>(trace.calls.size()))
    result.epilogue = static_cast<int32_t>(result.calls.size());
  return result;
}

}  // namespace fulgurite
