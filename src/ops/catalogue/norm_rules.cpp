#include "ops/catalogue/norm_rules.h"

#include <cmath>
#include <limits>

#include "ops/catalogue/made_calls.h"
#include "ops/catalogue/row_rules.h"
#include "ops/catalogue/rules.h"

namespace fulgurite::catalogue_families::rules {
namespace {

// In the dtype that the rule computes in: parameters may have more digits than the argument.
Scalar parameter(const RowRuleCall& row, size_t i) {
  if (row.args[i].constant) throw Unsupported("statistics that are not given");
  return convert(row.args[i].value, computed_in(row.nominal));
}

double last_number(const RowRuleCall& row) { return row.constant(row.args.size() - 1).toDouble(); }

// As ATen does it in training.
Scalar inverse_deviation(Scalar variance, double eps) {
  const Scalar inverse = 1.0 / sqrt(variance + eps);
  return eps == 0 ? select(variance == 0.0, variance.like(0.0), inverse) : inverse;
}

// ATen has x * scale + (bias - mean * scale), which loses digits where x is about the mean; by an
// infinite scale that is NaN where this is infinite.
Scalar scaled_and_shifted(Scalar x, Scalar mean, Scalar scale, Scalar bias) {
  return select(is_infinite(scale), x * scale + (bias - mean * scale), fma(x - mean, scale, bias));
}
// With weight and bias, the arguments 1 and 2.
Scalar scaled_and_shifted(const RowRuleCall& row, Scalar x, Scalar mean, Scalar rstd) {
  const Scalar scale = row.is_none(1) ? rstd : rstd * parameter(row, 1);
  return scaled_and_shifted(x, mean, scale, row.is_none(2) ? x.like(0.0) : parameter(row, 2));
}

// What the gradients of a layer are made of.
struct Parts {
  Scalar grad, normal;  // of the result; the argument less its mean, over the deviation
};

Parts parts_of(const RowRuleCall& row) {
  const Scalar grad = row.value(0), x = row.value(1);
  return {grad, (x - parameter(row, 3)) * parameter(row, 4)};
}

}  // namespace

std::array<Scalar, 3> row_layer_norm(const RowRuleCall& row) {
  const Scalar x = row.value(0);
  const Moments m = moments(row, x);
  const Scalar n = row.count(x.dtype(), false);
  const Scalar rstd = 1.0 / sqrt(m.squares / n + row.constant(4).toDouble());
  // Without a bias ATen adds 0, which makes 0 of -0.0.
  const Scalar bias = row.is_none(3) ? x.like(0.0) : parameter(row, 3);
  const Scalar y = row.is_none(2) ? fma(x - m.mean, rstd, bias)
                                  : fma((x - m.mean) * rstd, parameter(row, 2), bias);
  return {y, m.mean, rstd};
}

std::array<Scalar, 3> row_group_norm(const RowRuleCall& row) {
  const Scalar x = row.value(0);
  const Moments m = moments(row, x);
  const Scalar rstd = 1.0 / sqrt(m.squares / row.count(x.dtype(), false) + last_number(row));
  return {scaled_and_shifted(row, x, m.mean, rstd), m.mean, rstd};
}

BatchNorm row_batch_norm(const RowRuleCall& row, bool with_running) {
  const Scalar x = row.value(0);
  const Moments m = moments(row, x);
  const Scalar n = row.count(x.dtype(), false);
  // Of a row with infinite elements, where differences from the mean are NaN.
  const Scalar plain = row.sum(x) / n;
  const Scalar mean = select(is_nan(m.mean), plain, m.mean);
  const Scalar rstd = inverse_deviation(m.squares / n, last_number(row));
  BatchNorm result{scaled_and_shifted(row, x, mean, rstd), mean, rstd, {}, {}};
  if (!with_running) return result;
  const double momentum = row.constant(row.args.size() - 2).toDouble();
  const auto moved = [&](Scalar known, Scalar now) {
    return fma(known, known.like(1 - momentum), now * momentum);
  };
  result.running_mean = moved(parameter(row, 3), mean);
  result.running_var = moved(parameter(row, 4), m.squares / (n - 1.0));
  return result;
}

Results batch_norm_by_statistics(const RuleCall& call) {
  const auto own = [&](size_t i) {
    if (call.args[i].constant) throw Unsupported("statistics that are not given");
    return convert(call.args[i].value, computed_in(call.nominal));
  };
  const auto given = [&](size_t i) { return !call.args[i].constant; };
  const Scalar x = rule_detail::in_nominal(call, call.args[0]);
  const double eps = call.args.back().constant->toDouble();
  const Scalar rstd = 1.0 / sqrt(own(4) + eps);
  const Scalar scale = given(1) ? rstd * own(1) : rstd;
  const Scalar bias = given(2) ? own(2) : x.like(0.0);
  const Scalar y = scaled_and_shifted(x, own(3), scale, bias);
  return {y, y, y, y, y};
}

std::array<Scalar, 3> row_layer_norm_gradients(const RowRuleCall& row) {
  const Parts p = parts_of(row);
  const auto mask = row.constant(7).toBoolList();
  const bool of_argument = mask.get(0);
  if (of_argument && (mask.get(1) || mask.get(2))) throw Unsupported("sums over different rows");
  if (!of_argument) return {p.grad, row.sum(p.grad * p.normal), row.sum(p.grad)};
  const Scalar grad = row.is_none(5) ? p.grad : p.grad * parameter(row, 5);
  const Scalar n = row.count(grad.dtype(), false);
  const Scalar mean = row.sum(grad) / n, slope = row.sum(grad * p.normal) / n;
  const Scalar dx = (grad - fma(p.normal, slope, mean)) * parameter(row, 4);
  return {dx, dx, dx};
}

std::vector<Call> parts_of_layer_norm_gradients(Trace& trace, const Call& call) {
  const auto mask = call.args.at(7).constant.toBoolList();
  if (!mask.get(0) || !(mask.get(1) || mask.get(2))) throw Unsupported("one kind of gradients");
  MadeCalls made(trace, call);
  const auto add = [&](std::array<bool, 3> wanted) {
    std::vector<Arg> args = call.args;
    c10::List<bool> asked;
    std::vector<ValueId> results;
    for (size_t i = 0; i < wanted.size(); ++i) {
      asked.push_back(wanted[i]);
      results.push_back(wanted[i] ? call.results.at(i).values.at(0) : kNoValue);
    }
    args.at(7) = Arg::literal(asked);
    made.add(*call.op.aten, std::move(args), std::move(results));
  };
  add({true, false, false});
  add({false, mask.get(1), mask.get(2)});
  return std::move(made).take();
}

std::array<Scalar, 3> row_batch_norm_gradients(const RowRuleCall& row) {
  const Scalar grad = row.value(0), x = row.value(1);
  const bool training = row.constant(7).toBool();
  const Scalar mean = parameter(row, training ? 5 : 3);
  const Scalar rstd =
      training ? parameter(row, 6) : 1.0 / sqrt(parameter(row, 4) + row.constant(8).toDouble());
  const Scalar scale = row.is_none(2) ? rstd : rstd * parameter(row, 2);
  const Scalar centred = x - mean;
  const Scalar sum = row.sum(grad), product = row.sum(centred * grad);
  const Scalar n = row.count(grad.dtype(), false);
  const Scalar slope = product * rstd * rstd / n;
  const Scalar dx = training ? (grad - fma(centred, slope, sum / n)) * scale : grad * scale;
  return {dx, product * rstd, sum};
}

}  // namespace fulgurite::catalogue_families::rules
