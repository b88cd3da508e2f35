// Rules of normalisation over layers, groups and batches, and of its gradients.
#pragma once

#include "ir/trace.h"
#include "ops/row_rule.h"

namespace fulgurite::catalogue_families::rules {

// The result, the mean and 1/std, as ATen's native_layer_norm and native_group_norm give them.
std::array<Scalar, 3> row_layer_norm(const RowRuleCall& row);
std::array<Scalar, 3> row_group_norm(const RowRuleCall& row);

// In training. The arguments begin with input, weight and bias, the last one is eps; `running` and
// the one after it are the running statistics, the one before the last is their momentum.
struct BatchNorm {
  Scalar y, mean, rstd;
  Scalar running_mean, running_var;  // the new ones, where there are any
};
BatchNorm row_batch_norm(const RowRuleCall& row, bool with_running);

inline std::array<Scalar, 3> row_batch_statistics(const RowRuleCall& row) {
  const BatchNorm n = row_batch_norm(row, false);
  return {n.y, n.mean, n.rstd};
}
inline std::array<Scalar, 5> row_batch_and_running_statistics(const RowRuleCall& row) {
  const BatchNorm n = row_batch_norm(row, true);
  return {n.y, n.mean, n.rstd, n.running_mean, n.running_var};
}
// The fourth result is what a gradient of other devices needs, without elements.
inline std::array<Scalar, 6> row_batch_norm_with_update(const RowRuleCall& row) {
  const BatchNorm n = row_batch_norm(row, true);
  return {n.y, n.mean, n.rstd, n.y, n.running_mean, n.running_var};
}

// By statistics that are given: input, weight, bias, mean and variance come first, eps last. The
// statistics of the batch among the results have no elements.
Results batch_norm_by_statistics(const RuleCall& call);
inline constexpr PointwiseRule batch_norm_rule{&batch_norm_by_statistics, ComputesIn::Result, false,
                                               false, true};

// Gradients of the argument, the weight and the bias.
std::array<Scalar, 3> row_layer_norm_gradients(const RowRuleCall& row);
// Those of a layer are reduced along different dimensions: its parts ask for either.
std::vector<Call> parts_of_layer_norm_gradients(Trace& trace, const Call& call);
// Those of groups, as calls on them.
std::vector<Call> parts_of_group_norm_gradients(Trace& trace, const Call& call);
std::array<Scalar, 3> row_batch_norm_gradients(const RowRuleCall& row);

}  // namespace fulgurite::catalogue_families::rules
