// Elementwise operators.
#include <ATen/MetaFunctions.h>
#include <ATen/native/TypeProperties.h>

#include "ops/catalogue/families.h"
#include "ops/catalogue/rules.h"
#include "ops/meta/iterator.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;
using at::Scalar;
using Pair = std::tuple<Tensor, Tensor>;

// Operators with a number for one of two tensors.

Tensor mul(const Tensor& self, const Scalar& other) { return at::meta::mul(self, number(other)); }
Tensor div(const Tensor& self, const Scalar& other) { return at::meta::div(self, number(other)); }
Tensor div_mode(const Tensor& self, const Scalar& other, std::optional<c10::string_view> mode) {
  return at::meta::div(self, number(other), mode);
}
Tensor add(const Tensor& self, const Scalar& other, const Scalar& alpha) {
  return at::meta::add(self, number(other), alpha);
}
Tensor sub(const Tensor& self, const Scalar& other, const Scalar& alpha) {
  return at::meta::sub(self, number(other), alpha);
}
Tensor rsub(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  return at::meta::sub(other, self, alpha);
}
Tensor rsub_number(const Tensor& self, const Scalar& other, const Scalar& alpha) {
  return at::meta::sub(number(other), self, alpha);
}
Tensor remainder(const Tensor& self, const Scalar& other) {
  return at::meta::remainder(self, number(other));
}
Tensor remainder_of_number(const Scalar& self, const Tensor& other) {
  return at::meta::remainder(number(self), other);
}
Tensor fmod(const Tensor& self, const Scalar& other) {
  // The kernel makes a tensor of the number, which is then no number to type promotion.
  return at::meta::fmod(self, number(other));
}
Tensor floor_divide(const Tensor& self, const Tensor& other) { return binary(self, other); }
Tensor floor_divide_number(const Tensor& self, const Scalar& other) {
  return binary(self, number(other));
}

// Operators with a bool result.

Tensor logical(const Tensor& self, const Tensor& other) { return comparison(self, other); }
Tensor logical_not(const Tensor& self) { return unary(self, at::kBool); }
Tensor isnan(const Tensor& self) { return comparison(self, self); }

// Bounds.

Tensor relu(const Tensor& self) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
  return unary(self);
}
Tensor hardtanh(const Tensor& self, const Scalar& min, const Scalar& max) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Bool inputs not supported for hardtanh");
  return like(self);
}
Tensor hardtanh_backward(const Tensor& grad, const Tensor& self, const Scalar&, const Scalar&) {
  return binary(grad, self);
}

// Choice.

Tensor where(const Tensor& condition, const Tensor& self, const Tensor& other) {
  const ScalarType dtype = at::native::result_type(self, other);
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ",
              condition.scalar_type());
  const Tensor mask = to(condition, at::kBool), a = to(self, dtype), b = to(other, dtype);
  Tensor undefined;
  Iterator iterator(at::TensorIteratorConfig()
                        .check_all_same_dtype(false)
                        .allow_cpu_scalars(true)
                        .declare_static_dtype(dtype)
                        .add_output(undefined)
                        .add_const_input(mask)
                        .add_const_input(a)
                        .add_const_input(b));
  return iterator.result();
}

Tensor masked_fill_sizes(const Tensor& self, const Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool,
              "masked_fill_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
  return empty(at::infer_size(self.sizes(), mask.sizes()), self.scalar_type());
}
Tensor masked_fill_number(const Tensor& self, const Tensor& mask, const Scalar& value) {
  check_fits(value, self.scalar_type());
  return masked_fill_sizes(self, mask);
}
Tensor masked_fill(const Tensor& self, const Tensor& mask, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0,
              "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  return masked_fill_sizes(self, mask);
}

// Complex numbers.

Tensor abs(const Tensor& self) {
  return self.is_complex() ? like(self, c10::toRealValueType(self.scalar_type())) : unary(self);
}
Tensor angle(const Tensor& self) {
  return self.is_complex() ? like(self, c10::toRealValueType(self.scalar_type()))
                           : unary_float(self);
}
Tensor from_parts(const Tensor& a, const Tensor& b) {
  const auto is_real = [](const Tensor& t) {
    return t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble ||
           t.scalar_type() == at::kHalf;
  };
  TORCH_CHECK(is_real(a) && is_real(b),
              "Expected both inputs to be Half, Float or Double tensors but got ", a.scalar_type(),
              " and ", b.scalar_type());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "Expected object of scalar type ",
              a.scalar_type(), " but got scalar type ", b.scalar_type(), " for second argument");
  Tensor undefined;
  Iterator iterator(at::TensorIteratorConfig()
                        .check_all_same_dtype(false)
                        .declare_static_dtype(c10::toComplexType(a.scalar_type()))
                        .add_output(undefined)
                        .add_const_input(a)
                        .add_const_input(b));
  return iterator.result();
}

// Activations.

Tensor logit(const Tensor& self, std::optional<double>) { return unary_float(self); }
Tensor hardswish(const Tensor& self) { return unary(self); }
Tensor hardswish_backward(const Tensor& grad, const Tensor& self) { return binary(grad, self); }
Pair log_sigmoid_forward(const Tensor& self) {
  return {contiguous_like(self), contiguous_like(self)};
}
Tensor log_sigmoid_backward(const Tensor& grad, const Tensor& self, const Tensor& buffer) {
  return like(grad);
}
Tensor glu_backward(const Tensor& grad, const Tensor& self, int64_t dim) {
  TORCH_CHECK(self.dim() > 0, "glu does not support 0-dimensional tensors");
  const int64_t n = self.size(c10::maybe_wrap_dim(dim, self.dim()));
  TORCH_CHECK(n % 2 == 0, "Halving dimension must be even, but dimension ", dim, " is size ", n);
  return contiguous_like(self);
}
Tensor mish_backward(const Tensor& grad, const Tensor& self) {
  return like(binary(grad, self), self.scalar_type());
}
Tensor prelu(const Tensor& self, const Tensor& weight) {
  const Tensor both = same_dtype({self, weight});
  return both.sizes() == self.sizes() ? like(self) : both;
}
Pair prelu_backward(const Tensor& grad, const Tensor& self, const Tensor& weight) {
  const Tensor result = same_dtype({self, weight, grad});
  return {result, like(result)};
}
Pair frexp(const Tensor& self) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "torch.frexp() only supports floating-point dtypes");
  return {like(self), like(self, at::kInt)};
}
Tensor nan_to_num(const Tensor& self, std::optional<double>, std::optional<double>,
                  std::optional<double>) {
  return like(self);
}
Tensor rrelu_with_noise(const Tensor& self, Tensor& noise, const Scalar&, const Scalar&,
                        bool training, std::optional<at::Generator>) {
  TORCH_CHECK(self.sizes() == noise.sizes(), "noise tensor shape must match self tensor shape.");
  return contiguous_like(self);
}

constexpr std::array<const char*, 2> training{"training"};

// Elements.

using Expr = fulgurite::Scalar;
using rules::exp, rules::log, rules::log1p, rules::tanh, rules::sigmoid;

constexpr auto reversed_difference =
    elementwise_rounds([](Expr x, Expr y, Expr alpha) { return rules::difference(y, x, alpha); });
constexpr auto both = compares([](Expr x, Expr y) { return (x != 0) & (y != 0); });
constexpr auto either = compares([](Expr x, Expr y) { return (x != 0) | (y != 0); });
constexpr auto one_of = compares([](Expr x, Expr y) { return (x != 0) ^ (y != 0); });
constexpr auto neither = tests([](Expr x) { return x == 0; });
constexpr auto chosen = elementwise_rounds(
    [](Condition condition, Expr x, Expr y) { return select(condition.value, x, y); });
constexpr auto filled = elementwise_rounds(
    [](Expr x, Condition mask, Expr value) { return select(mask.value, value, x); });

// ATen raises an error for a value that is out of the range of the result.
fulgurite::Results filled_from(const RuleCall& call) {
  const ScalarType to = call.args[0].dtype, from = call.args[2].dtype;
  const bool wide = to == at::kDouble || (to == at::kFloat && from != at::kDouble);
  if (from != to && from != at::kBool && !wide)
    throw Unsupported("a value of another dtype, which may not fit");
  const Expr x = rule_detail::in_nominal(call, call.args[0]);
  const Expr value = rule_detail::in_nominal(call, call.args[2]);
  const Expr mask = convert(rule_detail::in_own_dtype(call, call.args[1]), at::kBool);
  return {select(mask, value, x)};
}

// The bounds are numbers of the dtype, narrow ones as well.
constexpr auto logit_rule = elementwise([](Nominal nominal, Expr x, std::optional<Expr> eps) {
  if (eps && !rules::is_number_below_zero(*eps)) {
    const Expr low = rules::rounded(*eps, nominal.dtype);
    const Expr high = rules::rounded(1.0 - low, nominal.dtype);
    x = select(x < low, low, select(x > high, high, x));
  }
  return log(x / (1.0 - x));
});
constexpr auto hardswish_rule = elementwise([](Expr x) {
  const Expr zero = x.like(0), six = x.like(6);
  return x * rules::clamped(x + 3, zero, six) / 6;
});
constexpr auto hardswish_gradient = elementwise([](Expr grad, Expr x) {
  const Expr middle = grad * (x / 3 + 0.5);
  return select(x <= -3, grad.like(0), select(x >= 3, grad, middle));
});
constexpr auto log_sigmoid = elementwise([](Expr x) {
  const Expr small = exp(-rules::magnitude(x));
  const Expr low = select(is_nan(x), x, select(x < 0, x, x.like(0)));
  return std::array{low - log1p(small), small};
});
constexpr auto log_sigmoid_gradient = elementwise([](Expr grad, Expr x, Expr buffer) {
  const Expr negative = x < 0, one = x.like(1), zero = x.like(0);
  const Expr slope = select(negative, one, zero), sign = select(negative, one, -one);
  return (slope - sign * (buffer / (1 + buffer))) * grad;
});
constexpr auto mish_gradient = elementwise([](Expr grad, Expr x) {
  const Expr t = tanh(log1p(exp(x)));
  return grad * (t + x * sigmoid(x) * (1 - t * t));
});
constexpr auto prelu_rule =
    elementwise([](Expr x, Expr weight) { return select(x > 0, x, weight * x); });
constexpr auto prelu_gradient = elementwise([](Expr grad, Expr x, Expr weight) {
  const Expr positive = x > 0;
  return std::array{select(positive, grad, weight * grad),
                    select(positive, grad.like(0), x * grad)};
});
constexpr auto numbers_for = elementwise([](Nominal nominal, Expr x, std::optional<Expr> nan,
                                            std::optional<Expr> high, std::optional<Expr> low) {
  if (!x.is_float()) return x;
  const auto limits = rules::limits_of(nominal.dtype);
  const double infinity = std::numeric_limits<double>::infinity();
  const Expr finite = select(x == infinity, high ? *high : x.like(limits.max),
                             select(x == -infinity, low ? *low : x.like(limits.min), x));
  return select(is_nan(x), nan ? *nan : x.like(0), finite);
});

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "mul.Scalar",
     .doc = "x * number",
     .pointwise = elementwise(calls<&rules::product>),
     .meta = rule<&mul>},
    {.op = "div.Scalar",
     .doc = "x / number",
     .pointwise = elementwise([](Expr x, Expr y) { return x / y; }),
     .meta = rule<&div>},
    {.op = "div.Scalar_mode",
     .doc = "x / number, rounded",
     .pointwise = rules::quotient_rule,
     .meta = rule<&div_mode>},
    {.op = "add.Scalar",
     .doc = "x + alpha * number",
     .pointwise = elementwise_rounds(calls<&rules::sum>),
     .meta = rule<&add>},
    {.op = "sub.Scalar",
     .doc = "x - alpha * number",
     .pointwise = elementwise_rounds(calls<&rules::difference>),
     .meta = rule<&sub>},
    {.op = "rsub.Tensor",
     .doc = "y - alpha * x",
     .pointwise = reversed_difference,
     .meta = rule<&rsub>},
    {.op = "rsub.Scalar",
     .doc = "number - alpha * x",
     .pointwise = reversed_difference,
     .meta = rule<&rsub_number>},
    {.op = "remainder.Scalar",
     .doc = "x modulo number, with the sign of the number",
     .pointwise = elementwise_jumps(calls<&rules::remainder>),
     .meta = rule<&remainder>},
    {.op = "remainder.Scalar_Tensor",
     .doc = "number modulo x, with the sign of x",
     .pointwise = elementwise_jumps(calls<&rules::remainder>),
     .meta = rule<&remainder_of_number>},
    {.op = "fmod.Scalar",
     .doc = "x modulo number, with the sign of x",
     .pointwise = elementwise_jumps(calls<&rules::fmod>),
     .meta = rule<&fmod>},
    {.op = "floor_divide",
     .doc = "floor(x / y)",
     .pointwise = rules::with_jumps(elementwise(calls<&rules::floor_quotient>)),
     .meta = rule<&floor_divide>},
    {.op = "floor_divide.Scalar",
     .doc = "floor(x / number)",
     .pointwise = rules::with_jumps(elementwise(calls<&rules::floor_quotient>)),
     .meta = rule<&floor_divide_number>},
    {.op = "logical_and",
     .doc = "x and y are not 0",
     .pointwise = both,
     .meta = rule<&logical>,
     .aten_each = 0.4},
    {.op = "logical_or",
     .doc = "x or y is not 0",
     .pointwise = either,
     .meta = rule<&logical>,
     .aten_each = 0.4},
    {.op = "logical_xor",
     .doc = "one of x and y is not 0",
     .pointwise = one_of,
     .meta = rule<&logical>,
     .aten_each = 0.4},
    {.op = "logical_not", .doc = "x is 0", .pointwise = neither, .meta = rule<&logical_not>},
    {.op = "isnan",
     .doc = "x is not a number",
     .pointwise = tests([](Expr x) { return is_nan(x); }),
     .meta = rule<&isnan>},
    {.op = "relu",
     .doc = "max(x, 0)",
     .pointwise = elementwise([](Expr x) { return select(0 > x, x.like(0), x); }),
     .meta = rule<&relu>},
    {.op = "hardtanh",
     .doc = "x within bounds",
     .pointwise = elementwise_rounds(
         [](Expr x, Expr low, Expr high) { return rules::clamped(x, low, high); }),
     .meta = rule<&hardtanh>},
    {.op = "hardtanh_backward",
     .doc = "the gradient where x is within bounds",
     .pointwise = elementwise_jumps([](Expr grad, Expr x, Expr low, Expr high) {
       return select((x > low) & (x < high), grad, grad.like(0));
     }),
     .meta = rule<&hardtanh_backward>},
    {.op = "where.self",
     .doc = "x where the condition holds, else y",
     .pointwise = chosen,
     .meta = rule<&where>,
     .aten_each = 1},
    {.op = "masked_fill.Scalar",
     .doc = "a number where the mask holds, else x",
     .pointwise = filled,
     .meta = rule<&masked_fill_number>},
    {.op = "masked_fill.Tensor",
     .doc = "a 0-dim tensor where the mask holds, else x",
     .pointwise = {&filled_from, ComputesIn::Result, true},
     .meta = rule<&masked_fill>},
    {.op = "abs",
     .doc = "the absolute value",
     .pointwise = elementwise(calls<&rules::magnitude>),
     .meta = rule<&abs>},
    {.op = "angle", .doc = "the argument of a complex number", .meta = rule<&angle>},
    {.op = "complex", .doc = "x + iy", .meta = rule<&from_parts>},
    {.op = "polar", .doc = "x * exp(iy)", .meta = rule<&from_parts>},
    {.op = "logit", .doc = "log(x / (1 - x))", .pointwise = logit_rule, .meta = rule<&logit>},
    {.op = "hardswish",
     .doc = "x * min(max(x + 3, 0), 6) / 6",
     .pointwise = hardswish_rule,
     .meta = rule<&hardswish>},
    {.op = "hardswish_backward",
     .doc = "the gradient of hardswish",
     .pointwise = rules::with_jumps(hardswish_gradient),
     .meta = rule<&hardswish_backward>},
    {.op = "log_sigmoid_forward",
     .doc = "log(sigmoid(x)), and exp(-abs(x))",
     .pointwise = log_sigmoid,
     .meta = rule<&log_sigmoid_forward>},
    {.op = "log_sigmoid_backward",
     .doc = "the gradient of log_sigmoid_forward",
     .pointwise = log_sigmoid_gradient,
     .meta = rule<&log_sigmoid_backward>},
    {.op = "glu_backward", .doc = "the gradient of glu", .meta = rule<&glu_backward>},
    {.op = "mish_backward",
     .doc = "the gradient of mish",
     .pointwise = mish_gradient,
     .meta = rule<&mish_backward>},
    {.op = "_prelu_kernel",
     .doc = "x where positive, else weight * x",
     .pointwise = prelu_rule,
     .meta = rule<&prelu>},
    {.op = "_prelu_kernel_backward",
     .doc = "the gradients of _prelu_kernel",
     .pointwise = rules::with_jumps(prelu_gradient),
     .meta = rule<&prelu_backward>},
    {.op = "frexp.Tensor", .doc = "mantissa and exponent", .meta = rule<&frexp>},
    {.op = "nan_to_num",
     .doc = "numbers for NaN and infinities",
     .pointwise = numbers_for,
     .meta = rule<&nan_to_num>},

    {.op = "rrelu", .doc = "leaky relu with a random slope", .draws_when = training},
    {.op = "rrelu_", .doc = "rrelu in place", .draws_when = training},
    {.op = "rrelu_with_noise",
     .doc = "rrelu, and its slopes",
     .draws_when = training,
     .meta = rule<&rrelu_with_noise>},
    {.op = "rrelu_with_noise_", .doc = "the same in place", .draws_when = training},
    {.op = "rrelu_with_noise_functional", .doc = "the same, pure", .draws_when = training},
}));

}  // namespace

constinit const std::span<const OpRecord> pointwise = records;

}  // namespace fulgurite::catalogue_families
