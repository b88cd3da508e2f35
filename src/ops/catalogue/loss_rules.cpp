#include "ops/catalogue/loss_rules.h"

#include <ATen/core/Reduction.h>

#include "base/error.h"
#include "ops/catalogue/made_calls.h"
#include "ops/facts.h"

namespace fulgurite::catalogue_families::rules {
namespace {

using c10::ScalarType;

// Which dimension of the scores is that of the classes.
size_t class_dim(size_t rank) { return rank == 1 ? 0 : 1; }

struct Class {
  Scalar index, ignored;  // within bounds; ignored ones are 0
};

// Fails where a class is out of bounds, unless it is ignored.
Class class_of(const ElementCall& call, const ElementSource& target, const Place& place,
               int64_t classes, int64_t ignored_index) {
  if (target.type->dtype != ScalarType::Long) throw Unsupported("classes that are no int64");
  if (target.sizes().size() != place.size()) throw Unsupported("a target of another shape");
  if (classes == 0) throw Unsupported("no classes");
  const Scalar target_class = call.read(target, place);
  const Scalar ignored = target_class == target_class.like(ignored_index);
  const Scalar inside = (target_class >= 0) & (target_class < call.given(classes));
  must_hold(inside | ignored);
  return {select(inside, target_class, target_class.like(0)), ignored};
}

bool is_given(const ElementCall& call, size_t i) {
  return call.args[i].kind == Arg::Kind::Value && call.args[i].values[0] != kNoValue;
}

// As the result is computed.
Scalar stored(const ElementCall& call, size_t i, const Place& place) {
  const ElementSource source = call.tensor(i);
  if (source.sizes().size() != place.size()) throw Unsupported("an argument of another shape");
  return convert(call.stored(source, place), computed_in(call.result->dtype));
}

// Scores, classes and weights of a loss.
struct Classes {
  ValueId scores, target;
  Arg weight;
  bool weighted;
  ScalarType dtype;
  Dims scores_sizes, sizes;  // of the scores, and of the target
  int64_t ignored;
};

Classes classes_of(const Trace& trace, const Call& call, ValueId scores, int64_t ignored) {
  const ValueId target = call.args.at(1).values.at(0);
  const TensorType &type = type_of(trace, scores), &targets = type_of(trace, target);
  Classes c{scores,     target,     call.args.at(2), has_tensor(call, 2),
            type.dtype, type.sizes, targets.sizes,   ignored};
  if (targets.dtype != ScalarType::Long) throw Unsupported("classes that are no int64");
  if (targets.sizes.empty() || numel(targets) == 0) throw Unsupported("no batch of targets");
  if (c.weighted && type_of(trace, c.weight.values[0]).dtype != c.dtype)
    throw Unsupported("weights of another dtype");
  return c;
}

// The sum of the weights of all targets.
ValueId weights_sum(MadeCalls& made, const Classes& c, ValueId as) {
  const Arg target = Arg::of(c.target), ignored = literal(c.ignored);
  if (!c.weighted) {
    const ValueId kept =
        made.add("aten::ne", "Scalar", {target, ignored}, ScalarType::Bool, c.sizes);
    return made.add("aten::sum", "", {Arg::of(kept), literal(c.dtype)}, c.dtype, {}, as);
  }
  const Arg skipped =
      Arg::of(made.add("aten::eq", "Scalar", {target, ignored}, ScalarType::Bool, c.sizes));
  const ValueId found = made.add("aten::masked_fill", "Scalar", {target, skipped, literal(0)},
                                 ScalarType::Long, c.sizes);
  const ValueId all = made.add("aten::take", "", {c.weight, Arg::of(found)}, c.dtype, c.sizes);
  const ValueId weights = made.add("aten::masked_fill", "Scalar",
                                   {Arg::of(all), skipped, literal(0)}, c.dtype, c.sizes);
  return made.add("aten::sum", "", {Arg::of(weights), literal(c10::IValue())}, c.dtype, {}, as);
}

// `one_by_one` is put together, and divided by the weights' sum for a mean.
ValueId reduced(MadeCalls& made, const Classes& c, int64_t reduction, ValueId one_by_one,
                ValueId weights, ValueId as = kNoValue) {
  const bool mean = reduction == at::Reduction::Mean;
  const std::vector<Arg> all{Arg::of(one_by_one), literal(c10::IValue())};
  const ValueId sum = made.add("aten::sum", "", all, c.dtype, {}, mean ? kNoValue : as);
  if (!mean) return sum;
  return made.add("aten::div", "Tensor", {Arg::of(sum), Arg::of(weights)}, c.dtype, {}, as);
}

ValueId losses(MadeCalls& made, const Classes& c) {
  const ValueId each = made.new_value(c.dtype, c.sizes);
  const auto op =
      find_op(c.sizes.size() == 1 ? "aten::nll_loss_forward" : "aten::nll_loss2d_forward");
  made.add(op,
           {Arg::of(c.scores), Arg::of(c.target), c.weight, literal(int64_t{at::Reduction::None}),
            literal(c.ignored)},
           {each, made.new_value(c.dtype, {})});
  return each;
}

}  // namespace

Scalar score_of_class(const ElementCall& call, const Place& place) {
  if (call.number(3) != at::Reduction::None) throw Unsupported("a sum over the batch");
  if (call.which != 0) throw Unsupported("the sum of the weights");
  const Dims& sizes = call.tensor(0).sizes();
  const size_t d = class_dim(sizes.size());
  if (sizes.size() != place.size() + 1) throw Unsupported("a target of another shape");
  const Class of = class_of(call, call.tensor(1), place, sizes[d], call.number(4));
  const IndexTerm index = computed_index(of.index, call.loops->size());
  Place at = place;
  at.insert(at.begin() + static_cast<std::ptrdiff_t>(d), index);
  Scalar loss = -stored(call, 0, at);
  if (is_given(call, 2)) loss = loss * stored(call, 2, {index});
  return select(of.ignored, loss.like(0.0), loss);
}

Scalar gradient_of_class(const ElementCall& call, const Place& place) {
  const int64_t reduction = call.number(4);
  const size_t d = class_dim(place.size());
  const int64_t classes = call.tensor(1).sizes().at(d);
  Place target = place;
  target.erase(target.begin() + static_cast<std::ptrdiff_t>(d));
  const Class of = class_of(call, call.tensor(2), target, classes, call.number(5));
  const bool each = reduction == at::Reduction::None;
  Scalar grad = -stored(call, 0, each ? target : Place());
  if (reduction == at::Reduction::Mean) grad = grad / stored(call, 6, {});
  if (is_given(call, 3))
    grad = grad * stored(call, 3, {computed_index(of.index, call.loops->size())});
  const Scalar hit = (call.index(place[d]) == of.index) & !of.ignored;
  return select(hit, grad, grad.like(0.0));
}

std::vector<Call> parts_of_nll_loss(Trace& trace, const Call& call) {
  const int64_t reduction = constant_int(call, 3);
  if (reduction == at::Reduction::None) throw Unsupported("losses one by one");
  const Classes c = classes_of(trace, call, call.args.at(0).values.at(0), constant_int(call, 4));
  MadeCalls made(trace, call);
  const ValueId each = losses(made, c);
  const ValueId weights = weights_sum(made, c, call.results.at(1).values.at(0));
  reduced(made, c, reduction, each, weights, call.results.at(0).values.at(0));
  return std::move(made).take();
}

std::vector<Call> parts_of_smooth_cross_entropy(Trace& trace, const Call& call) {
  const double smoothing = call.args.at(5).constant.toDouble();
  const int64_t reduction = constant_int(call, 3);
  const TensorType self = type_of(trace, call.args.at(0).values.at(0));
  const Dims& sizes = self.sizes;
  if (smoothing <= 0 || (sizes.size() != 2 && sizes.size() != 4) || !is_contiguous(self))
    throw Unsupported("of labels that are not smoothed, or of other shapes");
  if (has_tensor(call, 2) && sizes.size() != 2) throw Unsupported("weights of pixels");
  if (sizes == type_of(trace, call.args.at(1).values.at(0)).sizes)
    throw Unsupported("probabilities");
  MadeCalls made(trace, call);
  const ValueId scores =
      made.add("aten::_log_softmax", "", {call.args[0], literal(int64_t{1}), literal(false)},
               self.dtype, sizes);
  const Classes c = classes_of(trace, call, scores, constant_int(call, 4));
  const bool one_by_one = reduction == at::Reduction::None;
  const bool mean = reduction == at::Reduction::Mean;
  const ValueId weights = mean ? weights_sum(made, c, kNoValue) : kNoValue;
  const ValueId each = losses(made, c);
  // Of all classes alike.
  const ValueId by_class =
      c.weighted ? made.add("aten::mul", "Tensor", {Arg::of(scores), c.weight}, c.dtype, sizes)
                 : scores;
  c10::List<int64_t> over;
  over.push_back(1);
  const ValueId sum = made.add(
      "aten::sum", "dim_IntList",
      {Arg::of(by_class), literal(over), literal(false), literal(c10::IValue())}, c.dtype, c.sizes);
  const ValueId minus = made.add("aten::neg", "", {Arg::of(sum)}, c.dtype, c.sizes);
  const ValueId skipped = made.add("aten::eq", "Scalar", {Arg::of(c.target), literal(c.ignored)},
                                   ScalarType::Bool, c.sizes);
  const ValueId smooth = made.add("aten::masked_fill", "Scalar",
                                  {Arg::of(minus), Arg::of(skipped), literal(0)}, c.dtype, c.sizes);
  const auto put_together = [&](ValueId all) {
    return one_by_one ? all : reduced(made, c, reduction, all, weights);
  };
  const Dims result_sizes = one_by_one ? c.sizes : Dims();
  const auto times = [&](ValueId x, double factor) {
    return Arg::of(made.add("aten::mul", "Tensor", {Arg::of(x), number_as_tensor(factor)}, c.dtype,
                            result_sizes));
  };
  const Arg exact = times(put_together(each), 1 - smoothing);
  const Arg spread =
      times(put_together(smooth), smoothing / static_cast<double>(c.scores_sizes.at(1)));
  made.add("aten::add", "Tensor", {exact, spread, literal(1)}, c.dtype, result_sizes,
           call.results.at(0).values.at(0));
  return std::move(made).take();
}

}  // namespace fulgurite::catalogue_families::rules
