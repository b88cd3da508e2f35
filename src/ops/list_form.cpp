#include "ops/list_form.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ops/catalogue.h"
#include "ops/facts.h"
#include "ops/overloads.h"
#include "ops/per_operator.h"

namespace fulgurite {
namespace {

using c10::FunctionSchema;

constexpr std::string_view kPrefix = "aten::_foreach_";

// The type itself where it is no list.
const c10::Type& element_of(const c10::Argument& argument) {
  const auto* list = argument.real_type()->castRaw<c10::ListType>();
  return list ? *list->getElementType() : *argument.real_type();
}

bool fits(const FunctionSchema& each, const FunctionSchema& list) {
  const auto& wanted = each.arguments();
  const auto& given = list.arguments();
  if (each.is_mutable() || each.returns().size() != 1 || wanted.size() < given.size()) return false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i < given.size() ? *wanted[i].real_type() != element_of(given[i])
                         : !wanted[i].default_value())
      return false;
  }
  return true;
}

std::optional<c10::OperatorHandle> make_form(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  if (!name.starts_with(kPrefix) || !facts_of(op).pure() || op.schema().returns().size() != 1)
    return {};
  const std::string each = "aten::" + name.substr(kPrefix.size());
  // The overload with the fewest arguments: others take a mode, or a number of decimals.
  std::optional<c10::OperatorHandle> found;
  for (const std::string& overload : overloads_of(each)) {
    auto form = c10::Dispatcher::singleton().findSchema({each, overload});
    if (!form || !fits(form->schema(), op.schema())) continue;
    const OpRecord* known = find_record(*form);
    if (!known || !known->pointwise) continue;
    if (!found || form->schema().arguments().size() < found->schema().arguments().size())
      found = form;
  }
  return found;
}

}  // namespace

const std::optional<c10::OperatorHandle>& form_of_each(const c10::OperatorHandle& op) {
  return per_operator<&make_form>(op);
}

}  // namespace fulgurite
