#include "ops/catalogue/draw_rules.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "ir/layout.h"
#include "ops/facts.h"

namespace fulgurite::catalogue_families::rules {
namespace {

using c10::ScalarType;

const TensorType& result_type(const Trace& trace, const Call& call, size_t i = 0) {
  return type_of(trace, call.results.at(i).values.at(0));
}

double number_of(const Call& call, size_t i) {
  if (call.args.at(i).kind != Arg::Kind::Constant)
    throw Unsupported("a probability that is computed");
  return call.args[i].constant.toScalar().toDouble();
}

bool is_probability(double p) { return p >= 0 && p <= 1; }

bool is_pinned(const Call& call) {
  const int at = facts_of(*call.op.aten).pin_arg;
  return at >= 0 && call.args[at].constant.isBool() && call.args[at].constant.toBool();
}

// Of elements that lie like those of `type`. A double takes two words.
DrawnElements words_like(const Call& call, const TensorType& type, bool two) {
  if (is_pinned(call)) throw Unsupported("memory that is pinned");
  if (numel(type) == 0) throw Unsupported("nothing is drawn");
  if (!is_dense(type)) throw Unsupported("numbers are drawn in another order");
  DrawnElements drawn{type, -1};
  drawn.type.dtype = two ? ScalarType::Long : ScalarType::Int;
  drawn.type.offset = 0;
  drawn.type.requires_grad = false;
  for (int i : facts_of(*call.op.aten).generator_args)
    if (!call.args[i].constant.isNone()) drawn.generator = i;
  return drawn;
}

void check_float(const TensorType& type) {
  if (!c10::isFloatingType(type.dtype)) throw Unsupported("random numbers of no float dtype");
}

// x / y as ATen computes it of numbers in this dtype.
double quotient(ScalarType dtype, double x, double y) {
  if (dtype == ScalarType::Double) return x / y;
  const float q = static_cast<float>(x) / static_cast<float>(y);
  if (dtype == ScalarType::Half) return static_cast<float>(c10::Half(q));
  if (dtype == ScalarType::BFloat16) return static_cast<float>(c10::BFloat16(q));
  return q;
}

Scalar rounded(Scalar x, ScalarType dtype) {
  return computed_in(dtype) == dtype ? x : round_to(x, dtype);
}

}  // namespace

// x times noise: 0, or the reciprocal of how much is kept.
DrawnElements dropout_elements(const Trace& trace, const Call& call) {
  const TensorType &x = type_of(trace, call.args[0].values.at(0)), &y = result_type(trace, call);
  const double p = number_of(call, 1);
  if (!draws(call) || !(p > 0 && p < 1)) throw Unsupported("nothing is drawn");
  check_float(x);
  if (x.strides != y.strides) throw Unsupported("numbers are drawn in another order");
  return words_like(call, y, true);
}
Results dropout_of(const DrawCall& call) {
  const double kept = 1 - call.number(1);
  const Scalar x = call.value(0);
  const Scalar noise = call.of(x.dtype(), quotient(call.nominal, 1, kept));
  return {x * select(call.is_below(kept), noise, noise.like(0.0))};
}

// (x times mask) times the reciprocal, and the mask.
DrawnElements native_dropout_elements(const Trace& trace, const Call& call) {
  if (!draws(call) || !is_probability(number_of(call, 1))) throw Unsupported("nothing is drawn");
  check_float(result_type(trace, call));
  return words_like(call, result_type(trace, call, 1), true);
}
Results native_dropout_of(const DrawCall& call) {
  const double kept = 1 - call.number(1);
  const Scalar x = call.value(0), mask = call.is_below(kept);
  const Scalar one = x.like(1.0);
  const Scalar scale = rounded(call.of(x.dtype(), kept == 0 ? 0 : 1 / kept), call.nominal);
  return {x * select(mask, one, one.like(0.0)) * scale, mask};
}

DrawnElements bernoulli_p_elements(const Trace& trace, const Call& call) {
  if (!is_probability(number_of(call, 1))) throw Unsupported("a probability beyond [0, 1]");
  return words_like(call, result_type(trace, call), true);
}
Results bernoulli_p_of(const DrawCall& call) { return {call.is_below(call.number(1))}; }

DrawnElements bernoulli_elements(const Trace& trace, const Call& call) {
  const TensorType &p = type_of(trace, call.args[0].values.at(0)), &y = result_type(trace, call);
  check_float(p);
  if (p.strides != y.strides) throw Unsupported("numbers are drawn in another order");
  return words_like(call, y, p.dtype == ScalarType::Double);
}
Results bernoulli_of(const DrawCall& call) {
  const Scalar p = call.value(0);
  must_hold((p >= 0.0) & (p <= 1.0));
  return {call.uniform() < p};
}

DrawnElements rand_elements(const Trace& trace, const Call& call) {
  const TensorType& type = result_type(trace, call);
  check_float(type);
  return words_like(call, type, type.dtype == ScalarType::Double);
}
namespace {

// What is rounded up to the upper bound is the lower one.
Scalar between(const DrawCall& call, Scalar x, double from, double to) {
  const Scalar low = rounded(call.of(x.dtype(), from), call.nominal);
  const Scalar high = rounded(call.of(x.dtype(), to), call.nominal);
  const Scalar y = rounded(x, call.nominal);
  return select(y == high, low, y);
}

}  // namespace

Results rand_of(const DrawCall& call) {
  const Scalar x = call.uniform();
  if (computed_in(call.nominal) == call.nominal) return {x};
  return {between(call, x, 0, 1)};
}

DrawnElements uniform_elements(const Trace& trace, const Call& call) {
  number_of(call, 1);
  number_of(call, 2);
  return rand_elements(trace, call);
}
Results uniform_of(const DrawCall& call) {
  const double from = call.number(1), to = call.number(2);
  const Scalar x = call.uniform(), low = call.of(x.dtype(), from);
  const Scalar span = call.of(x.dtype(), to) - low;
  return {between(call, fma(x, span, low), from, to)};
}

DrawnElements integer_elements(const Trace& trace, const Call& call, bool from_zero) {
  constexpr int64_t kOneWord = int64_t{1} << 28, kExact = int64_t{1} << 24;
  const TensorType& type = result_type(trace, call);
  const auto bound = [&](size_t i) {
    const Arg& arg = call.args.at(i);
    if (!arg.constant.isInt()) throw Unsupported("a bound that is computed");
    return arg.constant.toInt();
  };
  const int64_t low = from_zero ? 0 : bound(0), high = bound(from_zero ? 0 : 1);
  const bool is_integer = type.dtype == ScalarType::Int || type.dtype == ScalarType::Long;
  if (!is_integer && type.dtype != ScalarType::Float && type.dtype != ScalarType::Double)
    throw Unsupported("integers of another dtype");
  const auto fits = [](int64_t x) { return x >= -kExact && x <= kExact; };
  if (!is_integer && !(fits(low) && fits(high))) throw Unsupported("integers that floats round");
  if (!(low < high) || low < -kOneWord || high > kOneWord || high - low >= kOneWord)
    throw Unsupported("integers of two words");
  return words_like(call, type, false);
}

Results integer_of(const DrawCall& call, bool from_zero) {
  const int64_t low = from_zero ? 0 : call.args[0].constant->toInt();
  const int64_t high = call.args[from_zero ? 0 : 1].constant->toInt();
  const Scalar word = convert(call.word, ScalarType::Long);
  const Scalar bits = word & word.like(int64_t{0xffffffff});
  return {bits % bits.like(high - low) + bits.like(low)};
}

}  // namespace fulgurite::catalogue_families::rules
