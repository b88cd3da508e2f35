// Elementwise arithmetic, comparisons and logic.
#include "ops/catalogue/families.h"
#include "ops/catalogue/rules.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace rules;

constexpr auto equal = compares([](Scalar x, Scalar y) { return x == y; });
constexpr auto not_equal = compares([](Scalar x, Scalar y) { return x != y; });
constexpr auto less = compares([](Scalar x, Scalar y) { return x < y; });
constexpr auto less_equal = compares([](Scalar x, Scalar y) { return x <= y; });
constexpr auto greater = compares([](Scalar x, Scalar y) { return x > y; });
constexpr auto greater_equal = compares([](Scalar x, Scalar y) { return x >= y; });

constexpr auto conjunction = elementwise([](Scalar x, Scalar y) { return x & y; });
constexpr auto disjunction = elementwise([](Scalar x, Scalar y) { return x | y; });
constexpr auto exclusive = elementwise([](Scalar x, Scalar y) { return x ^ y; });
constexpr auto left_shift = elementwise([](Scalar x, Scalar y) { return shifted_left(x, y); });
constexpr auto right_shift = elementwise([](Scalar x, Scalar y) { return shifted_right(x, y); });

constexpr auto at_least = elementwise_rounds(
    [](Scalar x, Scalar low) { return x.is_bool() ? x | low : clamped(x, low, std::nullopt); });
constexpr auto at_most = elementwise_rounds(
    [](Scalar x, Scalar high) { return x.is_bool() ? x & high : clamped(x, std::nullopt, high); });
constexpr auto within =
    elementwise_rounds([](Scalar x, std::optional<Scalar> low, std::optional<Scalar> high) {
      return clamped(x, low, high);
    });
constexpr auto sign = elementwise_jumps([](Scalar x) {
  if (x.is_bool()) return x;
  const Scalar zero = x.like(0), one = x.like(1);
  const Scalar positive = select(x > 0, one, zero);
  return x.is_signed() ? select(x < 0, x.like(-1), positive) : positive;
});
constexpr auto copied_sign = elementwise([](Scalar x, Scalar y) { return with_sign_of(x, y); });
constexpr auto x_log_y = elementwise([](Scalar x, Scalar y) {
  return select(is_nan(y), y, select(x == 0.0, x.like(0.0), x * log(y)));
});
constexpr auto x_log1p_y = elementwise([](Scalar x, Scalar y) {
  return select(is_nan(y), y, select(x == 0.0, x.like(0.0), x * log1p(y)));
});
constexpr auto towards = elementwise([](Scalar x, Scalar y, Scalar weight) {
  const Scalar difference = y - x;
  return select((weight < 0.5) & (weight > -0.5), fma(weight, difference, x),
                fma(difference, weight - 1.0, y));
});
constexpr auto to_power = elementwise_rounds(calls<&power>);

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "add.Tensor", .doc = "x + alpha * y", .pointwise = elementwise_rounds(calls<&sum>)},
    {.op = "sub.Tensor",
     .doc = "x - alpha * y",
     .pointwise = elementwise_rounds(calls<&difference>)},
    {.op = "mul.Tensor", .doc = "x * y", .pointwise = elementwise(calls<&product>)},
    {.op = "div.Tensor", .doc = "x / y", .pointwise = elementwise([](Scalar x, Scalar y) {
                                           return x / y;
                                         })},
    {.op = "div.Tensor_mode", .doc = "x / y, rounded", .pointwise = quotient_rule},
    {.op = "remainder.Tensor",
     .doc = "x modulo y, with the sign of y",
     .pointwise = elementwise_jumps(calls<&remainder>)},
    {.op = "fmod.Tensor",
     .doc = "x modulo y, with the sign of x",
     .pointwise = elementwise_jumps(calls<&fmod>)},
    {.op = "neg", .doc = "-x", .pointwise = elementwise([](Scalar x) { return -x; })},
    {.op = "sgn", .doc = "-1, 0 or 1", .pointwise = sign},
    {.op = "sign", .doc = "-1, 0 or 1", .pointwise = sign},
    {.op = "signbit", .doc = "the sign bit", .pointwise = tests(calls<&is_negative>)},
    {.op = "copysign.Tensor",
     .doc = "|x| with the sign of y",
     .pointwise = copied_sign,
     .aten_each = 0.25},
    {.op = "copysign.Scalar",
     .doc = "|x| with the sign of a number",
     .pointwise = copied_sign,
     .aten_each = 0.25},
    {.op = "maximum",
     .doc = "the larger of x and y, or NaN",
     .pointwise = elementwise_rounds(calls<&maximum>)},
    {.op = "minimum",
     .doc = "the smaller of x and y, or NaN",
     .pointwise = elementwise_rounds(calls<&minimum>)},
    {.op = "fmax",
     .doc = "the larger of x and y that is a number",
     .pointwise = elementwise_rounds([](Scalar x, Scalar y) {
       if (!x.is_float()) return maximum(x, y);
       return select(is_nan(x), y, select(y > x, y, x));
     }),
     .aten_each = 1.8},
    {.op = "fmin",
     .doc = "the smaller of x and y that is a number",
     .pointwise = elementwise_rounds([](Scalar x, Scalar y) {
       if (!x.is_float()) return minimum(x, y);
       return select(is_nan(x), y, select(y < x, y, x));
     }),
     .aten_each = 1.8},
    {.op = "clamp", .doc = "x within bounds", .pointwise = within},
    {.op = "clamp.Tensor", .doc = "x within bounds", .pointwise = within},
    {.op = "clamp_min", .doc = "at least a number", .pointwise = at_least},
    {.op = "clamp_min.Tensor", .doc = "at least y", .pointwise = at_least},
    {.op = "clamp_max", .doc = "at most a number", .pointwise = at_most},
    {.op = "clamp_max.Tensor", .doc = "at most y", .pointwise = at_most},
    {.op = "addcmul",
     .doc = "x + value * y * z",
     .pointwise = elementwise([](Scalar x, Scalar y, Scalar z, Scalar value) {
       return x.is_float() ? fma(value * y, z, x) : x + value * y * z;
     })},
    {.op = "addcdiv",
     .doc = "x + value * y / z",
     .pointwise =
         elementwise([](Scalar x, Scalar y, Scalar z, Scalar value) { return x + value * y / z; })},
    {.op = "lerp.Scalar", .doc = "x + weight * (y - x)", .pointwise = towards},
    {.op = "lerp.Tensor", .doc = "x + weight * (y - x)", .pointwise = towards},
    {.op = "pow.Tensor_Tensor", .doc = "x to the power y", .pointwise = to_power},
    {.op = "pow.Tensor_Scalar", .doc = "x to the power of a number", .pointwise = to_power},
    {.op = "pow.Scalar", .doc = "a number to the power x", .pointwise = to_power},
    {.op = "heaviside",
     .doc = "the step function, with a value at 0",
     .pointwise = elementwise_jumps([](Scalar x, Scalar at_zero) {
       return select(x == 0, at_zero, convert(x > 0, x.dtype()));
     }),
     .aten_each = 0.8},
    {.op = "hypot", .doc = "sqrt(x * x + y * y)", .pointwise = elementwise([](Scalar x, Scalar y) {
                                                    return call(Function::hypot, x, y);
                                                  })},
    {.op = "atan2",
     .doc = "the angle of the point (y, x)",
     .pointwise = elementwise([](Scalar x, Scalar y) { return call(Function::atan2, x, y); })},
    {.op = "nextafter",
     .doc = "the next number after x towards y",
     .pointwise = elementwise([](Nominal nominal, Scalar x, Scalar y) {
       if (computed_in(nominal.dtype) != nominal.dtype)
         throw Unsupported("the neighbours of narrow floats");
       return call(Function::nextafter, x, y);
     })},
    {.op = "logaddexp",
     .doc = "log(exp(x) + exp(y))",
     .pointwise = elementwise([](Scalar x, Scalar y) {
       const Scalar m = maximum(x, y);
       return select(is_infinite(x) & (x == y), x, m + log1p(exp(-magnitude(x - y))));
     })},
    {.op = "xlogy.Tensor",
     .doc = "x * log(y), 0 where x is 0",
     .pointwise = x_log_y,
     .aten_each = 3},
    {.op = "xlogy.Scalar_Self",
     .doc = "the same of a number",
     .pointwise = x_log_y,
     .aten_each = 3},
    {.op = "xlogy.Scalar_Other",
     .doc = "the same of a number",
     .pointwise = x_log_y,
     .aten_each = 3},
    {.op = "special_xlog1py",
     .doc = "x * log1p(y), 0 where x is 0",
     .pointwise = x_log1p_y,
     .aten_each = 5},
    {.op = "special_xlog1py.self_scalar",
     .doc = "of a number",
     .pointwise = x_log1p_y,
     .aten_each = 5},
    {.op = "special_xlog1py.other_scalar",
     .doc = "of a number",
     .pointwise = x_log1p_y,
     .aten_each = 5},

    {.op = "eq.Tensor", .doc = "x == y", .pointwise = equal},
    {.op = "eq.Scalar", .doc = "x == number", .pointwise = equal},
    {.op = "ne.Tensor", .doc = "x != y", .pointwise = not_equal},
    {.op = "ne.Scalar", .doc = "x != number", .pointwise = not_equal},
    {.op = "lt.Tensor", .doc = "x < y", .pointwise = less},
    {.op = "lt.Scalar", .doc = "x < number", .pointwise = less},
    {.op = "le.Tensor", .doc = "x <= y", .pointwise = less_equal},
    {.op = "le.Scalar", .doc = "x <= number", .pointwise = less_equal},
    {.op = "gt.Tensor", .doc = "x > y", .pointwise = greater},
    {.op = "gt.Scalar", .doc = "x > number", .pointwise = greater},
    {.op = "ge.Tensor", .doc = "x >= y", .pointwise = greater_equal},
    {.op = "ge.Scalar", .doc = "x >= number", .pointwise = greater_equal},
    {.op = "isinf", .doc = "x is infinite", .pointwise = tests([](Scalar x) {
                                              return x.is_float()
                                                         ? is_infinite(x)
                                                         : constant(*x.graph, ScalarType::Bool,
                                                                    false);
                                            })},
    {.op = "isposinf",
     .doc = "x is +inf",
     .pointwise = tests([](Scalar x) {
       return x.is_float() ? x == std::numeric_limits<double>::infinity()
                           : constant(*x.graph, ScalarType::Bool, false);
     })},
    {.op = "isneginf",
     .doc = "x is -inf",
     .pointwise = tests([](Scalar x) {
       return x.is_float() ? x == -std::numeric_limits<double>::infinity()
                           : constant(*x.graph, ScalarType::Bool, false);
     })},

    {.op = "bitwise_not", .doc = "~x", .pointwise = elementwise([](Scalar x) { return ~x; })},
    {.op = "bitwise_and.Tensor", .doc = "x & y", .pointwise = conjunction},
    {.op = "bitwise_and.Scalar", .doc = "x & number", .pointwise = conjunction},
    {.op = "bitwise_and.Scalar_Tensor", .doc = "number & x", .pointwise = conjunction},
    {.op = "bitwise_or.Tensor", .doc = "x | y", .pointwise = disjunction},
    {.op = "bitwise_or.Scalar", .doc = "x | number", .pointwise = disjunction},
    {.op = "bitwise_or.Scalar_Tensor", .doc = "number | x", .pointwise = disjunction},
    {.op = "bitwise_xor.Tensor", .doc = "x ^ y", .pointwise = exclusive},
    {.op = "bitwise_xor.Scalar", .doc = "x ^ number", .pointwise = exclusive},
    {.op = "bitwise_xor.Scalar_Tensor", .doc = "number ^ x", .pointwise = exclusive},
    {.op = "bitwise_left_shift.Tensor", .doc = "x << y", .pointwise = left_shift},
    {.op = "bitwise_left_shift.Tensor_Scalar", .doc = "x << number", .pointwise = left_shift},
    {.op = "bitwise_left_shift.Scalar_Tensor", .doc = "number << x", .pointwise = left_shift},
    {.op = "bitwise_right_shift.Tensor", .doc = "x >> y", .pointwise = right_shift},
    {.op = "bitwise_right_shift.Tensor_Scalar", .doc = "x >> number", .pointwise = right_shift},
    {.op = "bitwise_right_shift.Scalar_Tensor", .doc = "number >> x", .pointwise = right_shift},
    {.op = "__lshift__.Tensor", .doc = "x << y", .pointwise = left_shift},
    {.op = "__lshift__.Scalar", .doc = "x << number", .pointwise = left_shift},
    {.op = "__rshift__.Tensor", .doc = "x >> y", .pointwise = right_shift},
    {.op = "__rshift__.Scalar", .doc = "x >> number", .pointwise = right_shift},
}));

}  // namespace

constinit const std::span<const OpRecord> arithmetic = records;

}  // namespace fulgurite::catalogue_families
