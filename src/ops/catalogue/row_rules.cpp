#include "ops/catalogue/row_rules.h"

#include <cmath>
#include <limits>

#include "ops/catalogue/rules.h"

namespace fulgurite::catalogue_families::rules {
namespace {

using Kind = ReductionKind;

Scalar variance(const RowRuleCall& row, const Moments& m) {
  // No argument, or None, is 1.
  const bool given = row.args.size() > 2 && !row.is_none(2);
  const double correction = given ? row.constant(2).toScalar().toDouble() : 1;
  const Scalar freedom = row.count(m.squares.dtype(), false) - correction;
  return m.squares / select(freedom < 0.0, freedom.like(0.0), freedom);
}

void need_float(Scalar x) {
  if (!x.is_float()) throw Unsupported("of integers");
}

Scalar exp_below(Scalar x) { return call(Function::exp_negative, x); }

// Where all elements are -inf, their differences would be NaN.
Scalar finite_or_zero(Scalar maximum) {
  return select(is_infinite(maximum), maximum.like(0.0), maximum);
}

// In its own dtype, as in memory: what is equal there is equal here.
Scalar exact_element(const RowRuleCall& row) {
  const RuleArg& arg = row.args[0];
  const bool is_read = (*row.graph)[arg.value.node].prim == Prim::Load;
  return is_read ? arg.value : rounded(arg.value, arg.dtype);
}

Scalar extremum(const RowRuleCall& row, Scalar x, bool largest) {
  if (x.is_bool()) return row.reduce(largest ? Kind::Any : Kind::All, x);
  return row.reduce(largest ? Kind::Maximum : Kind::Minimum, x);
}

// The smallest `number` of the elements that are the extremum.
Scalar first_where(const RowRuleCall& row, Scalar x, Scalar extremum, Scalar number) {
  const Scalar hit = x.is_float() ? (x == extremum) | is_nan(x) : x == extremum;
  return row.reduce(Kind::Minimum,
                    select(hit, number, number.like(std::numeric_limits<int64_t>::max())));
}

Scalar where_extremum(const RowRuleCall& row, bool largest) {
  const Scalar x = exact_element(row);
  return first_where(row, x, extremum(row, x, largest), row.index());
}

// Zeros of both signs are equal: the sign of the first goes with its index.
std::array<Scalar, 2> extremum_and_index(const RowRuleCall& row, bool largest) {
  const Scalar x = exact_element(row);
  const Scalar m = extremum(row, x, largest);
  if (!x.is_float()) return {m, first_where(row, x, m, row.index())};
  const Scalar index = row.index();
  const Scalar first =
      first_where(row, x, m, index + index + convert(is_negative(x), ScalarType::Long));
  const Scalar zero = select((first & 1) != 0, m.like(-0.0), m.like(0.0));
  return {select(m == 0.0, zero, m), first >> first.like(1)};
}

// An argument in the dtype in which ATen accumulates.
Scalar accumulated(const RowRuleCall& row) {
  const Scalar x = row.value(0);
  if (x.is_bool()) throw Unsupported("running sums of bools");
  return row.nominal == ScalarType::Float ? convert(x, ScalarType::Double) : x;
}

}  // namespace

Moments moments(const RowRuleCall& row, Scalar x) {
  const Scalar shift = row.reduction(Kind::Sum, x / row.count(x.dtype(), true), true);
  const Scalar d = x - shift;
  const Scalar n = row.count(x.dtype(), false);
  const Scalar sum = row.sum(d);
  const Scalar squares = row.sum(d * d) - sum * (sum / n);
  return {shift + sum / n, select(squares < 0.0, squares.like(0.0), squares)};
}

Scalar row_sum(const RowRuleCall& row) {
  const Scalar x = row.value(0);
  return x.is_bool() ? row.reduce(Kind::Any, x) : row.sum(x);
}

// A mean of narrow floats is one of f32: what is wider is not made narrow before.
Scalar row_mean(const RowRuleCall& row) {
  const bool narrow = computed_in(row.nominal) != row.nominal;
  const Scalar x = narrow ? convert(row.args[0].value, computed_in(row.nominal)) : row.value(0);
  return row.sum(x) / row.count(x.dtype(), false);
}

Scalar row_product(const RowRuleCall& row) {
  if (computed_in(row.nominal) != row.nominal)
    throw Unsupported("a product of narrow floats, which is rounded and may overflow at each step");
  const Scalar x = row.value(0);
  return row.reduce(x.is_bool() ? Kind::All : Kind::Product, x);
}

Scalar row_maximum(const RowRuleCall& row) {
  const Scalar x = row.value(0);
  return row.reduce(x.is_bool() ? Kind::Any : Kind::Maximum, x);
}

Scalar row_minimum(const RowRuleCall& row) {
  const Scalar x = row.value(0);
  return row.reduce(x.is_bool() ? Kind::All : Kind::Minimum, x);
}

// Of the element itself: the dtype of the result may be uint8.
Scalar row_any(const RowRuleCall& row) {
  return row.reduce(Kind::Any, convert(row.args[0].value, ScalarType::Bool));
}

Scalar row_all(const RowRuleCall& row) {
  return row.reduce(Kind::All, convert(row.args[0].value, ScalarType::Bool));
}

Scalar row_logsumexp(const RowRuleCall& row) {
  const Scalar x = row.value(0);
  const Scalar m = finite_or_zero(row.reduce(Kind::MaximumNumber, x));
  return log(row.sum(exp(x - m))) + m;
}

Scalar row_variance(const RowRuleCall& row) { return variance(row, moments(row, row.value(0))); }

Scalar row_deviation(const RowRuleCall& row) { return sqrt(row_variance(row)); }

// ATen's recurrence for the mean gives NaN where an element is infinite.
std::array<Scalar, 2> row_variance_mean(const RowRuleCall& row) {
  const Moments m = moments(row, row.value(0));
  return {variance(row, m), select(is_infinite(m.mean), m.mean.like(std::nan("")), m.mean)};
}

std::array<Scalar, 2> row_deviation_mean(const RowRuleCall& row) {
  const auto [squares, mean] = row_variance_mean(row);
  return {sqrt(squares), mean};
}

Scalar row_norm(const RowRuleCall& row) {
  const Scalar x = row.value(0);
  need_float(x);
  const double order = row.is_none(1) ? 2 : row.constant(1).toScalar().toDouble();
  if (order == 2 && row.elements == 1) return row.sum(magnitude(x));  // no square out of range
  if (order == 2) return sqrt(row.sum(x * x));
  if (order == 1) return row.sum(magnitude(x));
  if (order == 0) return row.sum(convert(x != 0.0, x.dtype()));
  if (order == HUGE_VAL) return row.reduce(Kind::Maximum, magnitude(x));
  if (order == -HUGE_VAL) return row.reduce(Kind::Minimum, magnitude(x));
  throw Unsupported("a norm of another order than 0, 1, 2 and infinity");
}

Scalar row_argmax(const RowRuleCall& row) { return where_extremum(row, true); }
Scalar row_argmin(const RowRuleCall& row) { return where_extremum(row, false); }

std::array<Scalar, 2> row_max_and_index(const RowRuleCall& row) {
  return extremum_and_index(row, true);
}
std::array<Scalar, 2> row_min_and_index(const RowRuleCall& row) {
  return extremum_and_index(row, false);
}

// ATen copies what has no dimensions: -0.0 stays where 0 + -0.0 does not.
Scalar row_running_sum(const RowRuleCall& row) {
  const Scalar x = accumulated(row);
  return row.without_dimensions ? x : row.running_sum(x);
}
Scalar row_running_product(const RowRuleCall& row) {
  const Scalar x = accumulated(row);
  return row.without_dimensions ? x : row.running_product(x);
}

Scalar row_softmax(const RowRuleCall& row) {
  const Scalar x = row.value(0);
  need_float(x);
  const Scalar e = exp_below(x - row.reduce(Kind::MaximumNumber, x));
  return e * (1.0 / row.sum(e));
}

Scalar row_log_softmax(const RowRuleCall& row) {
  const Scalar x = row.value(0);
  need_float(x);
  const Scalar shifted = x - row.reduce(Kind::MaximumNumber, x);
  return shifted - log(row.sum(exp_below(shifted)));
}

Scalar row_softmax_gradient(const RowRuleCall& row) {
  const Scalar grad = row.value(0), y = row.value(1);
  need_float(grad);
  return y * (grad - row.sum(grad * y));
}

Scalar row_log_softmax_gradient(const RowRuleCall& row) {
  const Scalar grad = row.value(0), y = row.value(1);
  need_float(grad);
  return grad - exp(y) * row.sum(grad);
}

}  // namespace fulgurite::catalogue_families::rules
