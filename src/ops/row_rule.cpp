#include "ops/row_rule.h"

namespace fulgurite {

Scalar RowRuleCall::value(size_t i) const {
  return rule_detail::in_nominal({graph, nominal, false, args}, args[i]);
}

}  // namespace fulgurite
