#include <algorithm>
#include <string>

#include "ops/catalogue.h"
#include "ops/facts.h"
#include "ops/overloads.h"
#include "ops/per_operator.h"

namespace fulgurite {
namespace {

using c10::FunctionSchema;

// Names that the functional form of `op` may have, the likeliest first.
std::vector<std::string> candidate_names(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  if (const OpRecord* record = find_record(op); record && !record->functional.empty())
    return {std::string(record->functional)};
  std::vector<std::string> names;
  if (name.back() == '_') names.push_back(name.substr(0, name.size() - 1));
  names.push_back(name);
  for (size_t i = 0, n = names.size(); i < n; ++i) names.push_back(names[i] + "_functional");
  return names;
}

// Whether an argument of type `given` of the writing operator may be passed as `wanted`. Where the
// operator writes without saying so it takes Tensor? for what is a Tensor whenever it is written.
bool passes_as(const c10::TypePtr& given, const c10::TypePtr& wanted, bool hidden) {
  if (*given == *wanted) return true;
  const auto optional = given->cast<c10::OptionalType>();
  return hidden && optional && *optional->getElementType() == *wanted;
}

// Where each argument of `form` comes from, or nothing when it does not fit.
std::optional<std::vector<int>> match(const FunctionSchema& form, const FunctionSchema& schema,
                                      const OpFacts& facts) {
  if (form.is_mutable()) return {};
  // Results are told apart by the order of the arguments, where out= comes last: batch norm's
  // functional form returns what it would write there first.
  const auto is_out = [&](int i) { return schema.arguments()[i].is_out(); };
  const auto& written = facts.written;
  if (std::any_of(written.begin(), written.end(), is_out) &&
      !std::all_of(written.begin(), written.end(), is_out))
    return {};
  if (form.returns().size() != facts.plain_returns.size() + facts.written.size()) return {};
  for (const c10::Argument& result : form.returns())
    if (result.alias_info()) return {};
  std::vector<int> arg_of;
  for (const c10::Argument& arg : form.arguments()) {
    const auto at = schema.argumentIndexWithName(arg.name());
    if (!at || schema.arguments()[*at].is_out()) return {};
    if (!passes_as(schema.arguments()[*at].real_type(), arg.real_type(), facts.hidden_write_flag))
      return {};
    arg_of.push_back(*at);
  }
  size_t wanted = 0;
  for (const c10::Argument& arg : schema.arguments()) wanted += !arg.is_out();
  if (arg_of.size() != wanted) return {};
  return arg_of;
}

std::optional<FunctionalForm> make_form(const c10::OperatorHandle& op) {
  if (!op.hasSchema()) return {};
  const FunctionSchema& schema = op.schema();
  const OpFacts& facts = facts_of(op);
  if (facts.written.empty() || facts.changes_metadata) return {};
  // Names promise nothing in a namespace that is not torch's.
  if (!schema.name().starts_with("aten::")) return {};
  for (const std::string& name : candidate_names(op)) {
    // The overload of the same name first.
    std::vector<std::string> names = overloads_of(name);
    std::stable_partition(names.begin(), names.end(),
                          [&](const std::string& o) { return o == schema.overload_name(); });
    for (const std::string& overload : names) {
      auto form = c10::Dispatcher::singleton().findSchema({name, overload});
      if (!form || !facts_of(*form).written.empty()) continue;
      if (auto arg_of = match(form->schema(), schema, facts))
        return FunctionalForm{*form, std::move(*arg_of)};
    }
  }
  return {};
}

}  // namespace

const std::optional<FunctionalForm>& functional_form(const c10::OperatorHandle& op) {
  return per_operator<&make_form>(op);
}

}  // namespace fulgurite
