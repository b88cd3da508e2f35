#include "bindings/call_views.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "ir/rename.h"
#include "ir/verify.h"
#include "passes/memory.h"

namespace fulgurite {
namespace {

// A trace of some calls of another, with what these need.
class Part {
 public:
  explicit Part(TracePtr trace) : trace_(std::move(trace)), renaming_(trace_->values.size()) {
    part_.name = "part";
    part_.mode = trace_->mode;
    part_.storages = trace_->storages;
  }

  void input(const BoundValue& value) {
    check(value.trace);
    part_.inputs.push_back({taken(value.id), InputKind::Argument, ""});
  }

  void call(const BoundCall& bound) {
    check(bound.trace);
    if (bound.call->gradient)
      user_error("part() cannot have {}, an autograd.Function", bound.call->op.name());
    part_.calls.push_back(*bound.call);
    take(part_.calls.back());
    renaming_.apply(part_.calls.back());
  }

  void output(const BoundValue& value) {
    check(value.trace);
    part_.outputs.push_back(taken(value.id));
  }

  Trace finish() && {
    part_.output_tree = flat_tree(static_cast<int32_t>(part_.outputs.size()));
    return std::move(part_);
  }

 private:
  void check(const TracePtr& trace) const {
    if (trace != trace_) user_error("part() takes calls and values of the trace itself");
  }

  void take(Call& call) {
    call.frees.clear();
    for_each_value(call.args, [&](ValueId id) { taken(id); });
    for_each_value(call.results, [&](ValueId id) { taken(id); });
    for (const Retyped& change : call.retyped) taken(change.id);
    if (call.source >= 0) call.source = kept(trace_->sources, part_.sources, sources_, call.source);
    if (call.module >= 0) call.module = kept(trace_->modules, part_.modules, modules_, call.module);
    for (Call& inner : call.body) take(inner);
  }

  ValueId taken(ValueId id) {
    const auto [at, is_new] = numbers_.emplace(id, static_cast<ValueId>(part_.values.size()));
    if (is_new) {
      part_.values.push_back(trace_->values[id]);
      renaming_.set(id, at->second);
    }
    return at->second;
  }

  template <class T>
  static int32_t kept(const std::vector<T>& from, std::vector<T>& to,
                      std::unordered_map<int32_t, int32_t>& known, int32_t index) {
    const auto [at, is_new] = known.emplace(index, static_cast<int32_t>(to.size()));
    if (is_new) to.push_back(from[index]);
    return at->second;
  }

  TracePtr trace_;
  Trace part_;
  Renaming renaming_;
  std::unordered_map<ValueId, ValueId> numbers_;
  std::unordered_map<int32_t, int32_t> sources_, modules_;
};

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
  std::unordered_set<StorageId> given;  // not what its body makes for itself
  for_each_value(bound.call->args,
                 [&](ValueId id) { given.insert(type_of(*bound.trace, id).storage); });
  std::unordered_set<ValueId> known;
  nb::list list;
  for_each_change(*bound.call, [&](ValueId id) {
    if (given.contains(type_of(*bound.trace, id).storage) && known.insert(id).second)
      list.append(BoundValue{bound.trace, id});
  });
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
  Part made(std::move(trace));
  for (nb::handle item : inputs) made.input(nb::cast<const BoundValue&>(item));
  for (nb::handle item : calls) made.call(nb::cast<const BoundCall&>(item));
  for (nb::handle item : outputs) made.output(nb::cast<const BoundValue&>(item));
  auto part = std::make_shared<Trace>(std::move(made).finish());
  try {
    verify(*part, "part()");
  } catch (const InternalError& error) {
    user_error("these calls are no program of their own. {}", error.what());
  }
  return part;
}

}  // namespace fulgurite
