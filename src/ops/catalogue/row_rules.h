// Rules of reductions that several records share.
#pragma once

#include "ops/row_rule.h"

namespace fulgurite::catalogue_families::rules {

struct Moments {
  Scalar mean, squares;  // the sum of squared differences from the mean
};

// In one pass, about the mean of a few elements: what cancels is then small, and the sums lose no
// more than two passes would.
Moments moments(const RowRuleCall& row, Scalar x);

Scalar row_sum(const RowRuleCall& row);
Scalar row_mean(const RowRuleCall& row);
Scalar row_product(const RowRuleCall& row);
Scalar row_maximum(const RowRuleCall& row);
Scalar row_minimum(const RowRuleCall& row);
Scalar row_any(const RowRuleCall& row);
Scalar row_all(const RowRuleCall& row);
Scalar row_logsumexp(const RowRuleCall& row);

// The correction is the argument after the dimensions.
Scalar row_variance(const RowRuleCall& row);
Scalar row_deviation(const RowRuleCall& row);
std::array<Scalar, 2> row_variance_mean(const RowRuleCall& row);
std::array<Scalar, 2> row_deviation_mean(const RowRuleCall& row);

// Of orders 0, 1, 2 and infinity.
Scalar row_norm(const RowRuleCall& row);

// Where the largest or the smallest element is, the first of several; a NaN counts as both.
Scalar row_argmax(const RowRuleCall& row);
Scalar row_argmin(const RowRuleCall& row);
// The element, and where it is.
std::array<Scalar, 2> row_max_and_index(const RowRuleCall& row);
std::array<Scalar, 2> row_min_and_index(const RowRuleCall& row);

Scalar row_running_sum(const RowRuleCall& row);
Scalar row_running_product(const RowRuleCall& row);

Scalar row_softmax(const RowRuleCall& row);
Scalar row_log_softmax(const RowRuleCall& row);
Scalar row_softmax_gradient(const RowRuleCall& row);
Scalar row_log_softmax_gradient(const RowRuleCall& row);

}  // namespace fulgurite::catalogue_families::rules
