#include "ops/meta.h"

#include <optional>

#include "base/error.h"
#include "ops/catalogue.h"
#include "ops/meta/writing.h"
#include "ops/per_operator.h"

namespace fulgurite {
namespace {

std::optional<c10::KernelFunction> make_rule(const c10::OperatorHandle& op) {
  const OpRecord* record = find_record(op);
  if (!record || !record->meta.kernel) return meta::rule_for_writes(op);
  if (record->meta.schema) {
    const auto difference = c10::findSchemaDifferences(record->meta.schema(), op.schema());
    // Another library may change its operators as it likes.
    if (difference && !op.operator_name().name.starts_with("aten::")) return {};
    require(!difference, "the rule for {} has another signature: {}", record->op,
            difference.value_or(""));
  }
  return record->meta.kernel();
}

}  // namespace

const c10::KernelFunction* meta_rule(const c10::OperatorHandle& op) {
  const auto& rule = per_operator<&make_rule>(op);
  return rule ? &*rule : nullptr;
}

}  // namespace fulgurite
