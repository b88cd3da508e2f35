// Pointwise rules that several records share; what ATen's kernels compute, in their words.
#pragma once

#include "ops/pointwise_rule.h"

namespace fulgurite::catalogue_families::rules {

using c10::ScalarType;

// With jumps; see PointwiseRule.
constexpr PointwiseRule with_jumps(PointwiseRule rule) {
  rule.jumps = true;
  return rule;
}

// The largest finite numbers of a float dtype.
struct Limits {
  double min, max;
};
Limits limits_of(ScalarType dtype);

// Functions by their names in C.
#define FULGURITE_FUNCTION(name) \
  inline Scalar name(Scalar x) { return call(Function::name, x); }
FULGURITE_FUNCTION(ceil)
FULGURITE_FUNCTION(erf)
FULGURITE_FUNCTION(exp)
FULGURITE_FUNCTION(expm1)
FULGURITE_FUNCTION(floor)
FULGURITE_FUNCTION(log)
FULGURITE_FUNCTION(log1p)
FULGURITE_FUNCTION(nearbyint)
FULGURITE_FUNCTION(sigmoid)
FULGURITE_FUNCTION(sqrt)
FULGURITE_FUNCTION(tanh)
FULGURITE_FUNCTION(trunc)
#undef FULGURITE_FUNCTION

// Of the magnitude alone: |-0.0| is 0.0, |NaN| is NaN; integers wrap.
Scalar magnitude(Scalar x);
// The bits of x's magnitude and of y's sign.
Scalar with_sign_of(Scalar x, Scalar y);
Scalar is_negative(Scalar x);  // the sign bit; of unsigned integers never
Scalar is_infinite(Scalar x);
bool is_number_below_zero(Scalar x);  // a number of the call

// The larger one, or the second where they compare equal or one is NaN: what vmaxps gives.
inline Scalar above(Scalar x, Scalar y) { return select(x > y, x, y); }
inline Scalar below(Scalar x, Scalar y) { return select(x < y, x, y); }
// The larger one, or NaN where one is NaN.
Scalar maximum(Scalar x, Scalar y);
Scalar minimum(Scalar x, Scalar y);

// To the precision of a dtype, if it is a narrow float.
Scalar rounded(Scalar x, ScalarType nominal);
// To the dtype of the result, as in memory.
Scalar cast(Nominal nominal, Raw x);

// x + alpha * y; of bools: or.
Scalar sum(Scalar x, Scalar y, Scalar alpha);
Scalar difference(Scalar x, Scalar y, Scalar alpha);
Scalar product(Scalar x, Scalar y);
// x / y, rounded as the third argument says. By a number, or a 0-dim tensor, in full precision.
Results quotient(const RuleCall& call);
inline constexpr PointwiseRule quotient_rule{&quotient, ComputesIn::Result, false, true};
Scalar floor_quotient(Scalar x, Scalar y);
// With the sign of the divisor, or of the dividend.
Scalar remainder(Scalar x, Scalar y);
Scalar fmod(Scalar x, Scalar y);
Scalar power(Nominal nominal, Scalar x, Scalar y);

// At least a bound, at most one; NaN where one of the two is NaN.
Scalar bounded_below(Scalar x, Scalar low);
Scalar bounded_above(Scalar x, Scalar high);
Scalar clamped(Scalar x, std::optional<Scalar> low, std::optional<Scalar> high);

Scalar shifted_left(Scalar x, Scalar y);
Scalar shifted_right(Scalar x, Scalar y);

}  // namespace fulgurite::catalogue_families::rules
