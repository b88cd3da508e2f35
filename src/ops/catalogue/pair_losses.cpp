#include "ops/catalogue/pair_losses.h"

#include "base/error.h"
#include "ops/catalogue/rules.h"

namespace fulgurite::catalogue_families::rules {
namespace {

// Thresholds would be integers, too.
void need_float(c10::ScalarType dtype) {
  if (!c10::isFloatingType(dtype)) throw Unsupported("a loss of integers");
}

Scalar argument(const RuleCall& call, size_t i) {
  need_float(call.nominal);
  return rule_detail::in_nominal(call, call.args[i]);
}

// ATen rounds what is in between to one of the dtypes or to the other.
void need_one_dtype(const RuleCall& call) {
  if (call.args[0].dtype != call.args[1].dtype) throw Unsupported("a target of another dtype");
}

bool is_given(const RuleCall& call, size_t i) {
  return !call.args[i].constant || !call.args[i].constant->isNone();
}

// What the gradient of a loss has of one element, as the result is computed.
struct Pair {
  Scalar grad, x, target;  // the gradient is divided by the number of elements for a mean
};

Scalar operand(const ElementCall& call, size_t i, const Place& place) {
  need_float(call.result->dtype);
  const ElementSource source = call.tensor(i);
  const Place at = broadcast(source.sizes(), place, call.loops->size());
  return convert(call.stored(source, at), computed_in(call.result->dtype));
}

Pair pair_of(const ElementCall& call, const Place& place, size_t reduction) {
  Scalar grad = operand(call, 0, place);
  if (call.number(reduction) == at::Reduction::Mean)
    grad = grad / convert(call.given(numel(*call.tensor(1).type)), grad.dtype());
  return {grad, operand(call, 1, place), operand(call, 2, place)};
}

// Within a threshold, and the same beyond it on either side.
Scalar by_threshold(Scalar d, double threshold, Scalar within, Scalar beyond) {
  if (threshold <= 0) throw Unsupported("a threshold that is not above 0");
  return select(d <= -threshold, -beyond, select(d >= threshold, beyond, within));
}

}  // namespace

Scalar put_together(const RowRuleCall& row, Scalar x, int64_t reduction) {
  x = rounded(x, row.nominal);  // the losses are in memory before
  if (reduction == at::Reduction::Sum) return row.sum(x);
  if (reduction == at::Reduction::Mean) return row.sum(x) / row.count(x.dtype(), false);
  throw Unsupported("neither a sum nor a mean");
}

Scalar mse_loss(const RuleCall& call) {
  const Scalar d = argument(call, 0) - argument(call, 1);
  return d * d;
}

Scalar smooth_l1_loss(const RuleCall& call) {
  const Scalar z = magnitude(argument(call, 0) - argument(call, 1));
  const double beta = call.args[3].constant->toDouble();
  return select(z < beta, 0.5 * z * z / beta, z - 0.5 * beta);
}

Scalar huber_loss(const RuleCall& call) {
  const Scalar z = magnitude(argument(call, 0) - argument(call, 1));
  const double delta = call.args[3].constant->toDouble();
  return select(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta));
}

// ATen does it in several kernels, whose results are in memory.
Scalar soft_margin_loss(const RuleCall& call) {
  need_one_dtype(call);
  const Scalar margin = rounded(-argument(call, 1) * argument(call, 0), call.nominal);
  return log1p(rounded(exp(margin), call.nominal));
}

Scalar binary_cross_entropy(const RuleCall& call) {
  const Scalar x = argument(call, 0), target = argument(call, 1);
  must_hold((x >= 0.0) & (x <= 1.0) & (target >= 0.0) & (target <= 1.0));
  const auto at_least = [](Scalar log) { return select(log < -100.0, log.like(-100.0), log); };
  const Scalar loss = (target - 1.0) * at_least(log1p(-x)) - target * at_least(log(x));
  return is_given(call, 2) ? loss * argument(call, 2) : loss;
}

// The same.
Scalar binary_cross_entropy_with_logits(const RuleCall& call) {
  need_one_dtype(call);
  const auto in_memory = [&](Scalar x) { return rounded(x, call.nominal); };
  const Scalar x = argument(call, 0), target = argument(call, 1);
  const Scalar low = select(is_nan(x), x, select(x < 0.0, x, x.like(0.0)));
  Scalar log_sigmoid = in_memory(low - log1p(exp(-magnitude(x))));
  if (is_given(call, 3)) {
    const Scalar more = in_memory(in_memory(argument(call, 3) - 1.0) * target);
    log_sigmoid = in_memory(log_sigmoid * in_memory(more + 1.0));
  }
  const Scalar loss = in_memory(in_memory(1.0 - target) * x) - log_sigmoid;
  return is_given(call, 2) ? in_memory(loss) * argument(call, 2) : loss;
}

Scalar mse_gradient(const ElementCall& call, const Place& place) {
  const Pair p = pair_of(call, place, 3);
  return (p.x - p.target) * p.grad * 2.0;  // twice a difference may be out of range
}

Scalar smooth_l1_gradient(const ElementCall& call, const Place& place) {
  const Pair p = pair_of(call, place, 3);
  const Scalar d = p.x - p.target;
  const double beta = call.constant(4).toDouble();
  return by_threshold(d, beta, d * p.grad / beta, p.grad);
}

Scalar huber_gradient(const ElementCall& call, const Place& place) {
  const Pair p = pair_of(call, place, 3);
  const Scalar d = p.x - p.target;
  const double delta = call.constant(4).toDouble();
  return by_threshold(d, delta, d * p.grad, p.grad * delta);
}

Scalar binary_cross_entropy_gradient(const ElementCall& call, const Place& place) {
  const Dims& sizes = call.result->sizes;
  if (call.tensor(1).sizes() != sizes || call.tensor(2).sizes() != sizes)
    throw Unsupported("a target of other sizes");
  const Pair p = pair_of(call, place, 4);
  const Scalar spread = (1.0 - p.x) * p.x;
  constexpr double kLeast = 1e-12F;  // a float, in ATen
  const Scalar divisor = select(spread < kLeast, spread.like(kLeast), spread);
  const Scalar grad = p.grad * (p.x - p.target) / divisor;
  const bool weighted = call.args[3].kind == Arg::Kind::Value && call.args[3].values[0] != kNoValue;
  return weighted ? grad * operand(call, 3, place) : grad;
}

}  // namespace fulgurite::catalogue_families::rules
