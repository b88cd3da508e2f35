// Losses between an input and a target: of each element, of all elements, and their gradients.
#pragma once

#include <ATen/core/Reduction.h>

#include "ops/element_rule.h"
#include "ops/pointwise_rule.h"
#include "ops/row_rule.h"

namespace fulgurite::catalogue_families::rules {

// Of one element; the arguments are those of the operators of these names.
Scalar mse_loss(const RuleCall& call);
Scalar smooth_l1_loss(const RuleCall& call);
Scalar huber_loss(const RuleCall& call);
Scalar soft_margin_loss(const RuleCall& call);
// Fails for an input outside of 0 to 1.
Scalar binary_cross_entropy(const RuleCall& call);
Scalar binary_cross_entropy_with_logits(const RuleCall& call);

template <Scalar (*loss)(const RuleCall&)>
inline constexpr PointwiseRule each_loss{
    [](const RuleCall& call) -> Results { return {loss(call)}; }};

Scalar put_together(const RowRuleCall& row, Scalar x, int64_t reduction);

// Their sum or mean, as the argument `reduction` says.
template <Scalar (*loss)(const RuleCall&), size_t reduction>
inline constexpr RowRule all_losses{
    [](const RowRuleCall& row) -> Results {
      const Scalar x = loss({row.graph, row.nominal, false, row.args});
      return {put_together(row, x, row.constant(reduction).toInt())};
    },
    Reduces::All, false, "reduction"};

Scalar mse_gradient(const ElementCall& call, const Place& place);
Scalar smooth_l1_gradient(const ElementCall& call, const Place& place);
Scalar huber_gradient(const ElementCall& call, const Place& place);
Scalar binary_cross_entropy_gradient(const ElementCall& call, const Place& place);

}  // namespace fulgurite::catalogue_families::rules
