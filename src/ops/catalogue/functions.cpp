// Functions of one real number.
#include <cmath>
#include <numbers>

#include "ops/catalogue/families.h"
#include "ops/catalogue/rules.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace rules;

template <Function f>
constexpr auto applied = elementwise([](Scalar x) { return call(f, x); });

// Rounding leaves integers alone.
template <Function f>
constexpr auto to_integer =
    elementwise_jumps([](Scalar x) { return x.is_float() ? call(f, x) : x; });

constexpr auto rounded_to_decimals = elementwise_jumps([](Scalar x, Plain decimals) {
  const int64_t n = decimals.number().toLong();
  if (!x.is_float()) throw Unsupported("integers rounded to decimals");
  const Scalar ten = x.like(std::pow(10.0, static_cast<double>(std::abs(n))));
  return n < 0 ? nearbyint(x / ten) * ten : nearbyint(x * ten) / ten;
});

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "acos", .doc = "arc cosine", .pointwise = applied<Function::acos>},
    {.op = "acosh", .doc = "inverse hyperbolic cosine", .pointwise = applied<Function::acosh>},
    {.op = "asin", .doc = "arc sine", .pointwise = applied<Function::asin>},
    {.op = "asinh", .doc = "inverse hyperbolic sine", .pointwise = applied<Function::asinh>},
    {.op = "atan", .doc = "arc tangent", .pointwise = applied<Function::atan>},
    {.op = "atanh", .doc = "inverse hyperbolic tangent", .pointwise = applied<Function::atanh>},
    {.op = "cos", .doc = "cosine", .pointwise = applied<Function::cos>},
    {.op = "cosh", .doc = "hyperbolic cosine", .pointwise = applied<Function::cosh>},
    {.op = "erf", .doc = "the error function", .pointwise = applied<Function::erf>},
    {.op = "erfc", .doc = "1 - erf(x)", .pointwise = applied<Function::erfc>},
    {.op = "exp", .doc = "e to the power x", .pointwise = applied<Function::exp>},
    {.op = "exp2", .doc = "2 to the power x", .pointwise = applied<Function::exp2>},
    {.op = "expm1", .doc = "exp(x) - 1", .pointwise = applied<Function::expm1>},
    {.op = "log", .doc = "natural logarithm", .pointwise = applied<Function::log>},
    {.op = "log10", .doc = "logarithm to base 10", .pointwise = applied<Function::log10>},
    {.op = "log1p", .doc = "log(1 + x)", .pointwise = applied<Function::log1p>},
    {.op = "log2", .doc = "logarithm to base 2", .pointwise = applied<Function::log2>},
    {.op = "sin", .doc = "sine", .pointwise = applied<Function::sin>},
    {.op = "sinh", .doc = "hyperbolic sine", .pointwise = applied<Function::sinh>},
    {.op = "sqrt", .doc = "square root", .pointwise = applied<Function::sqrt>},
    {.op = "tan", .doc = "tangent", .pointwise = applied<Function::tan>},
    {.op = "tanh", .doc = "hyperbolic tangent", .pointwise = applied<Function::tanh>},
    {.op = "sigmoid", .doc = "1 / (1 + exp(-x))", .pointwise = applied<Function::sigmoid>},

    {.op = "reciprocal", .doc = "1 / x", .pointwise = elementwise([](Scalar x) {
                                           return 1.0 / x;
                                         })},
    {.op = "rsqrt", .doc = "1 / sqrt(x)", .pointwise = elementwise([](Scalar x) {
                                            return 1.0 / sqrt(x);
                                          })},
    {.op = "sinc", .doc = "sin(pi x) / (pi x)", .pointwise = elementwise([](Scalar x) {
                                                  const Scalar angle = x * std::numbers::pi;
                                                  return select(x == 0.0, x.like(1.0),
                                                                call(Function::sin, angle) / angle);
                                                })},
    {.op = "special_entr", .doc = "-x * log(x)", .pointwise = elementwise([](Scalar x) {
                                                   const Scalar outside = select(
                                                       x == 0.0, x.like(0.0), x.like(-HUGE_VAL));
                                                   return select(
                                                       is_nan(x), x,
                                                       select(x > 0.0, -x * log(x), outside));
                                                 })},

    {.op = "ceil", .doc = "the next integer above", .pointwise = to_integer<Function::ceil>},
    {.op = "floor", .doc = "the next integer below", .pointwise = to_integer<Function::floor>},
    {.op = "round",
     .doc = "the nearest integer, or the even one of two",
     .pointwise = to_integer<Function::nearbyint>},
    {.op = "round.decimals",
     .doc = "the nearest number with so many decimals",
     .pointwise = rounded_to_decimals},
    {.op = "trunc", .doc = "the next integer towards 0", .pointwise = to_integer<Function::trunc>},
    {.op = "frac", .doc = "x - trunc(x)", .pointwise = elementwise_jumps([](Scalar x) {
                                            return x - trunc(x);
                                          })},
}));

}  // namespace

constinit const std::span<const OpRecord> functions = records;

}  // namespace fulgurite::catalogue_families
