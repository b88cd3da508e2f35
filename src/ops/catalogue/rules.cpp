#include "ops/catalogue/rules.h"

#include <cmath>
#include <limits>

namespace fulgurite::catalogue_families::rules {
namespace {

ScalarType bits_of(Scalar x) {
  return x.dtype() == ScalarType::Double ? ScalarType::Long : ScalarType::Int;
}

Scalar sign_mask(Scalar x) {
  const bool wide = x.dtype() == ScalarType::Double;
  return bits(x, bits_of(x))
      .like(wide ? std::numeric_limits<int64_t>::min()
                 : int64_t{std::numeric_limits<int32_t>::min()});
}

// Integers are divided by 1 where the divisor is 0, which fails as it raises in ATen, or -1, by
// which the smallest one cannot be divided.
Scalar safe_divisor(Scalar y) {
  if (const ScalarNode* known = as_constant(y)) {
    if (int_of(*known) == 0) throw Unsupported("an integer is divided by 0, which raises an error");
    return y.is_signed() && int_of(*known) == -1 ? y.like(1) : y;
  }
  must_hold(y != 0);
  const Scalar unsafe = y.is_signed() ? (y == 0) | (y == -1) : y == 0;
  return select(unsafe, y.like(1), y);
}

Scalar truncated_quotient(Scalar x, Scalar y) {
  const Scalar divisor = safe_divisor(y);
  if (!x.is_signed() || (as_constant(y) && divisor.node == y.node)) return x / divisor;
  return as_constant(y) ? -x : select(y == -1, -x, x / divisor);
}

Scalar integer_floor_quotient(Scalar x, Scalar y) {
  const Scalar q = truncated_quotient(x, y);
  if (!x.is_signed()) return q;
  const Scalar r = x % safe_divisor(y);
  return select((r != 0) & ((r < 0) ^ (y < 0)), q - x.like(1), q);
}

Scalar float_floor_quotient(Scalar x, Scalar y) {
  const Scalar mod = call(Function::fmod, x, y);
  const Scalar adjusted = (mod != 0.0) & ((y < 0.0) ^ (mod < 0.0));
  const Scalar exact = (x - mod) / y;
  const Scalar div = select(adjusted, exact - 1.0, exact);
  const Scalar low = floor(div);
  const Scalar rounded = select((div - low) > 0.5, low + 1.0, low);
  const Scalar plain = x / y;
  return select(y == 0.0, plain, select(div != 0.0, rounded, with_sign_of(x.like(0.0), plain)));
}

Scalar integer_power(Scalar x, Scalar y) {
  const ScalarNode* known = as_constant(y);
  if (!known) throw Unsupported("integers to the power of a tensor");
  int64_t exponent = int_of(*known);
  if (exponent < 0 || exponent > 127) throw Unsupported("integers to so small or large a power");
  Scalar result = x.like(1), square = x;
  for (; exponent; exponent >>= 1, square = square * square)
    if (exponent & 1) result = result * square;
  return result;
}

}  // namespace

Limits limits_of(ScalarType dtype) {
  const auto of = [](double max) { return Limits{-max, max}; };
  switch (dtype) {
    case ScalarType::Half:
      return of(65504);
    case ScalarType::BFloat16:
      return of(0x1.FEp127);
    case ScalarType::Float:
      return of(std::numeric_limits<float>::max());
    default:
      return of(std::numeric_limits<double>::max());
  }
}

Scalar magnitude(Scalar x) {
  if (x.is_float()) return bits(bits(x, bits_of(x)) & ~sign_mask(x), x.dtype());
  return x.is_signed() ? select(x < 0, -x, x) : x;
}

Scalar with_sign_of(Scalar x, Scalar y) {
  const Scalar sign = bits(y, bits_of(y)) & sign_mask(y);
  return bits((bits(x, bits_of(x)) & ~sign_mask(x)) | sign, x.dtype());
}

Scalar is_negative(Scalar x) {
  if (x.is_float()) return bits(x, bits_of(x)) < 0;
  return x < x.like(0);
}

Scalar is_infinite(Scalar x) { return magnitude(x) == std::numeric_limits<double>::infinity(); }

bool is_number_below_zero(Scalar x) {
  const ScalarNode* known = as_constant(x);
  return known && double_of(*known) < 0;
}

Scalar maximum(Scalar x, Scalar y) {
  if (x.is_bool()) return x | y;
  return x.is_float() ? select(is_nan(x), x, above(x, y)) : above(x, y);
}

Scalar minimum(Scalar x, Scalar y) {
  if (x.is_bool()) return x & y;
  return x.is_float() ? select(is_nan(x), x, below(x, y)) : below(x, y);
}

Scalar rounded(Scalar x, ScalarType nominal) {
  return computed_in(nominal) == nominal ? x : round_to(x, nominal);
}

Scalar cast(Nominal nominal, Raw x) {
  return rounded(convert(x.value, computed_in(nominal.dtype)), nominal.dtype);
}

Scalar sum(Scalar x, Scalar y, Scalar alpha) {
  if (x.is_bool()) return x | (y & alpha);
  const ScalarNode* known = as_constant(alpha);
  if (known && double_of(*known) == 1) return x + y;
  return x.is_float() ? fma(y, alpha, x) : x + alpha * y;
}

Scalar difference(Scalar x, Scalar y, Scalar alpha) {
  const ScalarNode* known = as_constant(alpha);
  if (known && double_of(*known) == 1) return x - y;
  return x.is_float() ? fma(y, -alpha, x) : x - alpha * y;
}

Scalar product(Scalar x, Scalar y) { return x.is_bool() ? x & y : x * y; }

Results quotient(const RuleCall& call) {
  const Scalar x = rule_detail::in_nominal(call, call.args[0]);
  const Scalar y = rule_detail::in_nominal(call, call.args[1]);
  const Plain mode{call.args[2].constant};
  if (mode.is_none()) return {x / y};
  if (mode.text() == "floor") return {floor_quotient(x, y)};
  if (!x.is_float()) return {truncated_quotient(x, y)};
  const bool by_number = call.args[1].constant || call.args[1].is_zero_dim;
  return {trunc(by_number ? x / y : rounded(x / y, call.nominal))};
}

Scalar floor_quotient(Scalar x, Scalar y) {
  return x.is_float() ? float_floor_quotient(x, y) : integer_floor_quotient(x, y);
}

Scalar remainder(Scalar x, Scalar y) {
  if (x.is_float()) {
    const Scalar mod = call(Function::fmod, x, y);
    return select((mod != 0.0) & ((y < 0.0) ^ (mod < 0.0)), mod + y, mod);
  }
  const Scalar mod = x % safe_divisor(y);
  if (!x.is_signed()) return mod;
  return select((mod != 0) & ((mod < 0) ^ (y < 0)), mod + y, mod);
}

Scalar fmod(Scalar x, Scalar y) {
  if (x.is_float()) return call(Function::fmod, x, y);
  return x % safe_divisor(y);
}

Scalar power(Nominal nominal, Scalar x, Scalar y) {
  if (x.is_bool()) throw Unsupported("bools to a power");
  if (!x.is_float()) return integer_power(x, y);
  const ScalarNode* known = as_constant(y);
  const double exponent = known ? double_of(*known) : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return x.like(1.0);
  if (std::abs(exponent) == 0.5 && nominal.dtype == ScalarType::Half)
    return call(Function::pow, x, y);  // of -inf and -0.0, other than square roots
  if (exponent == 0.5) return sqrt(x);
  if (exponent == 1) return x;
  if (exponent == 2) return x * x;
  if (exponent == 3) return x * x * x;
  if (exponent == -0.5) return 1.0 / sqrt(x);
  if (exponent == -1) return 1.0 / x;
  if (exponent == -2) return 1.0 / (x * x);
  return call(Function::pow, x, y);
}

Scalar bounded_below(Scalar x, Scalar low) {
  if (!as_constant(low) || !x.is_float()) return maximum(x, low);
  return std::isnan(double_of(*as_constant(low))) ? low : select(low > x, low, x);
}

Scalar bounded_above(Scalar x, Scalar high) {
  if (!as_constant(high) || !x.is_float()) return minimum(x, high);
  return std::isnan(double_of(*as_constant(high))) ? high : select(high < x, high, x);
}

Scalar clamped(Scalar x, std::optional<Scalar> low, std::optional<Scalar> high) {
  if (low) x = bounded_below(x, *low);
  if (high) x = bounded_above(x, *high);
  return x;
}

Scalar shifted_left(Scalar x, Scalar y) {
  const int64_t width = 8 * static_cast<int64_t>(c10::elementSize(x.dtype()));
  const Scalar outside = (y < 0) | (y >= width);
  return select(outside, x.like(0), x << select(outside, x.like(0), y));
}

Scalar shifted_right(Scalar x, Scalar y) {
  const int64_t width = 8 * static_cast<int64_t>(c10::elementSize(x.dtype()));
  const Scalar outside = (y < 0) | (y >= width);
  // Of signed integers, the sign alone is left.
  const Scalar most = x.like(x.is_signed() ? width - 1 : 0);
  const Scalar shifted = x >> select(outside, most, y);
  return x.is_signed() ? shifted : select(outside, x.like(0), shifted);
}

}  // namespace fulgurite::catalogue_families::rules
