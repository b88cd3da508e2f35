#include "bindings/call_views.h"

#include <unordered_set>

#include "base/error.h"
#include "ir/verify.h"
#include "passes/filter.h"
#include "passes/memory.h"

namespace fulgurite {
namespace {

void check_of(const TracePtr& trace, const TracePtr& other) {
  if (trace != other) user_error("part() takes calls and values of the trace itself");
}

}  // namespace

nb::object operator_of(const BoundCall& bound) {
  if (!bound.call->op.aten) return nb::none();
  const c10::OperatorName& name = bound.call->op.aten->operator_name();
  const size_t colons = name.name.find("::");
  const std::string overload = name.overload_name.empty() ? "default" : name.overload_name;
  nb::object ops = nb::module_::import_("torch").attr("ops");
  return ops.attr(name.name.substr(0, colons).c_str())
      .attr(name.name.substr(colons + 2).c_str())
      .attr(overload.c_str());
}

nb::dict arguments_by_name(const BoundCall& bound) {
  nb::dict found;
  if (!bound.call->op.aten) return found;
  const auto& schema = bound.call->op.aten->schema().arguments();
  for (size_t i = 0; i < schema.size(); ++i)
    found[schema[i].name().c_str()] = argument_in_python(bound.trace, bound.call->args[i]);
  return found;
}

nb::list written_values(const BoundCall& bound) {
  nb::list list;
  for_each_change(*bound.call, [&](ValueId id) { list.append(BoundValue{bound.trace, id}); });
  return list;
}

nb::object call_again(const BoundCall& bound, nb::args args) {
  const Call& call = *bound.call;
  if (!call.op.aten) user_error("{} is a region, and no operator to call", call.op.region);
  const auto& schema = call.op.aten->schema().arguments();
  if (nb::len(args) != schema.size())
    user_error("{} takes {} arguments, as `args` of the call has them, got {}", call.op.name(),
               schema.size(), nb::len(args));
  nb::list positional;
  nb::dict keywords;
  for (size_t i = 0; i < schema.size(); ++i) {
    if (schema[i].kwarg_only())
      keywords[schema[i].name().c_str()] = args[i];
    else
      positional.append(args[i]);
  }
  return operator_of(bound)(*positional, **keywords);
}

std::shared_ptr<Trace> part_of(TracePtr trace, nb::iterable calls, nb::iterable inputs,
                               nb::iterable outputs) {
  auto part = std::make_shared<Trace>(without_calls(*trace));
  part->name = "part";
  part->epilogue = -1;
  part->provenance.clear();
  part->inputs.clear();
  part->outputs.clear();
  for (nb::handle item : inputs) {
    const auto& value = nb::cast<const BoundValue&>(item);
    check_of(trace, value.trace);
    part->inputs.push_back({value.id, InputKind::Argument, ""});
  }
  for (nb::handle item : calls) {
    const auto& bound = nb::cast<const BoundCall&>(item);
    check_of(trace, bound.trace);
    part->calls.push_back(*bound.call);
    part->calls.back().frees.clear();
  }
  for (nb::handle item : outputs) {
    const auto& value = nb::cast<const BoundValue&>(item);
    check_of(trace, value.trace);
    part->outputs.push_back(value.id);
  }
  part->output_tree = flat_tree(static_cast<int32_t>(part->outputs.size()));
  try {
    verify(*part, "part()");
  } catch (const InternalError& error) {
    user_error("these calls are no program of their own. {}", error.what());
  }
  return part;
}

}  // namespace fulgurite
