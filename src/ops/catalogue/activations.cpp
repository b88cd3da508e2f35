// Activations of neural networks, and their gradients.
#include <cmath>
#include <numbers>

#include "ops/catalogue/families.h"
#include "ops/catalogue/rules.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace rules;

bool is_tanh(Plain approximation) { return approximation.text() == "tanh"; }

constexpr double kSqrt2OverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kCubic = 0.044715;

Scalar gelu(Scalar x, Plain approximation) {
  if (is_tanh(approximation)) return call(Function::gelu_tanh, x);
  return x * 0.5 * (1.0 + erf(x * (std::numbers::sqrt2 / 2)));
}

Scalar gelu_gradient(Scalar grad, Scalar x, Plain approximation) {
  if (!is_tanh(approximation)) {
    const Scalar cdf = 0.5 * (1.0 + erf(x * (std::numbers::sqrt2 / 2)));
    const Scalar pdf = exp(x * x * -0.5) * (std::numbers::inv_sqrtpi * std::numbers::sqrt2 * 0.5);
    return grad * (cdf + x * pdf);
  }
  const Scalar square = x * x;
  const Scalar inner = kSqrt2OverPi * (x + kCubic * square * x);
  const Scalar t = tanh(inner);
  const Scalar left = 0.5 * (1.0 + t);
  const Scalar right = 0.5 * x * (1.0 - t * t) * (kSqrt2OverPi * (1.0 + 3 * kCubic * square));
  return grad * (left + right);
}

Scalar elu(Scalar x, Scalar alpha, Scalar scale, Scalar input_scale) {
  const Scalar negative = expm1(x * input_scale) * (alpha * scale);
  return select(x < 0.0, negative, x * scale);
}

Scalar elu_gradient(Scalar grad, Scalar alpha, Scalar scale, Scalar input_scale, Plain is_result,
                    Scalar x) {
  const Scalar negative_scale = alpha * scale;
  const Scalar negative = is_result.value->toBool()
                              ? grad * input_scale * (x + negative_scale)
                              : grad * input_scale * negative_scale * exp(x * input_scale);
  return select(x > 0.0, grad * scale, negative);
}

Scalar softplus(Scalar x, Scalar beta, Scalar threshold) {
  const Scalar scaled = x * beta;
  return select(scaled > threshold, x, log1p(exp(scaled)) / beta);
}

Scalar softplus_gradient(Scalar grad, Scalar x, Scalar beta, Scalar threshold) {
  const Scalar z = exp(x * beta);
  return select(x * beta > threshold, grad, grad * z / (z + 1.0));
}

Scalar leaky_relu(Scalar x, Scalar slope) { return select(x > 0.0, x, x * slope); }

Scalar leaky_relu_gradient(Scalar grad, Scalar x, Scalar slope) {
  return select(x > 0.0, grad, grad * slope);
}

Scalar hardsigmoid(Scalar x) { return clamped(x + 3.0, x.like(0.0), x.like(6.0)) / 6.0; }

Scalar hardsigmoid_gradient(Scalar grad, Scalar x) {
  return select((x > -3.0) & (x < 3.0), grad * static_cast<double>(1.0f / 6.0f), grad.like(0.0));
}

Scalar softshrink(Scalar x, Scalar lambda) {
  return select(x > lambda, x - lambda,
                select(x < -lambda, x + lambda, select(is_nan(x), x, x.like(0.0))));
}

Scalar hardshrink(Scalar x, Scalar lambda) {
  return select((x >= -lambda) & (x <= lambda), x.like(0.0), x);
}

// The gradient of both.
Scalar shrink_gradient(Scalar grad, Scalar x, Scalar lambda) {
  return select((x > lambda) | (x < -lambda), grad, grad.like(0.0));
}

Scalar logit_gradient(Scalar grad, Scalar x, std::optional<Scalar> eps) {
  const Scalar slope = grad / (x * (1.0 - x));
  if (eps && !is_number_below_zero(*eps))
    return select((x >= *eps) & (x <= 1.0 - *eps), slope, grad.like(0.0));
  return select((x < 0.0) | (x > 1.0), grad.like(std::nan("")), slope);
}

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "gelu",
     .doc = "x * the normal distribution at x",
     .pointwise = elementwise(calls<&gelu>)},
    {.op = "gelu_backward",
     .doc = "the gradient of gelu",
     .pointwise = elementwise(calls<&gelu_gradient>)},
    {.op = "silu", .doc = "x * sigmoid(x)", .pointwise = elementwise([](Scalar x) {
                                              return call(Function::silu, x);
                                            })},
    {.op = "silu_backward",
     .doc = "the gradient of silu",
     .pointwise = elementwise([](Scalar grad, Scalar x) {
       const Scalar s = sigmoid(x);
       return grad * s * (1.0 + x * (1.0 - s));
     })},
    {.op = "mish", .doc = "x * tanh(log(1 + exp(x)))", .pointwise = elementwise([](Scalar x) {
                                                         return x * tanh(log1p(exp(x)));
                                                       })},
    {.op = "elu",
     .doc = "x, or alpha * (exp(x) - 1) below 0",
     .pointwise = elementwise(calls<&elu>)},
    {.op = "elu_backward",
     .doc = "the gradient of elu",
     .pointwise = with_jumps(elementwise(calls<&elu_gradient>))},
    {.op = "softplus", .doc = "log(1 + exp(x))", .pointwise = elementwise(calls<&softplus>)},
    {.op = "softplus_backward",
     .doc = "the gradient of softplus",
     .pointwise = elementwise(calls<&softplus_gradient>)},
    {.op = "leaky_relu",
     .doc = "x, or slope * x below 0",
     .pointwise = elementwise(calls<&leaky_relu>)},
    {.op = "leaky_relu_backward",
     .doc = "the gradient of leaky_relu",
     .pointwise = with_jumps(elementwise(calls<&leaky_relu_gradient>))},
    {.op = "hardsigmoid",
     .doc = "min(max(x + 3, 0), 6) / 6",
     .pointwise = elementwise(calls<&hardsigmoid>)},
    {.op = "hardsigmoid_backward",
     .doc = "the gradient of hardsigmoid",
     .pointwise = with_jumps(elementwise(calls<&hardsigmoid_gradient>))},
    {.op = "softshrink",
     .doc = "x nearer to 0 by lambda",
     .pointwise = elementwise(calls<&softshrink>)},
    {.op = "softshrink_backward",
     .doc = "the gradient of softshrink",
     .pointwise = elementwise_jumps(calls<&shrink_gradient>)},
    {.op = "hardshrink",
     .doc = "x, or 0 within lambda",
     .pointwise = elementwise_jumps(calls<&hardshrink>)},
    {.op = "hardshrink_backward",
     .doc = "the gradient of hardshrink",
     .pointwise = elementwise_jumps(calls<&shrink_gradient>)},
    {.op = "threshold",
     .doc = "x, or value up to a threshold",
     .pointwise = rules::with_jumps(elementwise([](Scalar x, Scalar threshold, Scalar value) {
       return select(x <= threshold, value, x);
     }))},
    {.op = "threshold_backward",
     .doc = "the gradient above a threshold",
     .pointwise = rules::with_jumps(elementwise([](Scalar grad, Scalar x, Scalar threshold) {
       return select(x <= threshold, grad.like(0), grad);
     }))},
    {.op = "sigmoid_backward",
     .doc = "the gradient of sigmoid, from its result",
     .pointwise = elementwise([](Scalar grad, Scalar y) { return grad * (1.0 - y) * y; })},
    {.op = "tanh_backward",
     .doc = "the gradient of tanh, from its result",
     .pointwise = elementwise([](Scalar grad, Scalar y) { return grad * (1.0 - y * y); })},
    {.op = "logit_backward",
     .doc = "the gradient of logit",
     .pointwise = elementwise_jumps(calls<&logit_gradient>)},
}));

}  // namespace

constinit const std::span<const OpRecord> activations = records;

}  // namespace fulgurite::catalogue_families
