// The gradients of group_norm, put together of calls that loops can be made of.
//
// With x^ = (x - mean) * rstd per group of a sample, g = dy * weight, and means over that group,
// dx = rstd * (g - mean(g) - x^ * mean(g * x^)); the weight's gradient is the sum of dy * x^ over
// samples and places, the bias's that of dy (Wu and He, Group Normalization, 2018). All of these
// are made of the two sums over the places of a channel, so that elements are gone through twice.
#include <utility>
#include <vector>

#include "ops/catalogue/made_calls.h"
#include "ops/catalogue/norm_rules.h"
#include "ops/facts.h"

namespace fulgurite::catalogue_families::rules {
namespace {

// All of one dtype, seen as samples x groups x channels of a group x places.
class Gradients {
 public:
  Gradients(Trace& trace, const Call& call)
      : call_(call), made_(trace, call), dtype_(made_.type(given(1)).dtype) {
    for (size_t i : {0, 1, 2, 3, 4}) {
      if (i == 4 && !has_tensor(call_, 4)) continue;
      const TensorType& type = made_.type(given(i));
      if (type.dtype != dtype_) throw Unsupported("statistics of another dtype");
      if (!is_contiguous(type)) throw Unsupported("tensors with gaps, or of channels last");
    }
    if (numel(made_.type(given(1))) == 0) throw Unsupported("nothing to normalise");
    const int64_t channels = constant_int(call, 6), groups = constant_int(call, 8);
    sizes_ = {constant_int(call, 5), groups, channels / groups, constant_int(call, 7)};
    by_group_ = {sizes_[0], groups, 1, 1};
    by_channel_ = {sizes_[0], groups, sizes_[2], 1};
    rstd_ = made_.add_view(given(3), by_group_);
    grad_ = made_.add_view(given(0), sizes_);
    const ValueId x = made_.add_view(given(1), sizes_);
    normal_ = product(difference(x, made_.add_view(given(2), by_group_), sizes_), rstd_, sizes_);
    grad_sum_ = sum(grad_, 3, by_channel_);
    slope_sum_ = sum(product(grad_, normal_, sizes_), 3, by_channel_);
  }

  void of_argument() {
    const ValueId tilted = made_.add("aten::addcmul", "",
                                     {Arg::of(group_mean(grad_sum_)), Arg::of(normal_),
                                      Arg::of(group_mean(slope_sum_)), literal(1)},
                                     dtype_, sizes_);
    end(product(difference(weighted(grad_, sizes_), tilted, sizes_), rstd_, sizes_), 0);
  }
  void of_weight() { end(sum(slope_sum_, 0, {1, sizes_[1], sizes_[2], 1}), 1); }
  void of_bias() { end(sum(grad_sum_, 0, {1, sizes_[1], sizes_[2], 1}), 2); }

  std::vector<Call> take() && { return std::move(made_).take(); }

 private:
  ValueId given(size_t i) const { return call_.args.at(i).values.at(0); }

  ValueId product(ValueId a, ValueId b, const Dims& sizes) {
    return made_.add("aten::mul", "Tensor", {Arg::of(a), Arg::of(b)}, dtype_, sizes);
  }
  ValueId difference(ValueId a, ValueId b, const Dims& sizes) {
    return made_.add("aten::sub", "Tensor", {Arg::of(a), Arg::of(b), literal(1)}, dtype_, sizes);
  }
  ValueId weighted(ValueId x, const Dims& sizes) {
    if (!has_tensor(call_, 4)) return x;
    return product(x, made_.add_view(given(4), {1, sizes_[1], sizes_[2], 1}), sizes);
  }
  ValueId sum(ValueId of, int64_t over, const Dims& sizes) {
    return made_.add(
        "aten::sum", "dim_IntList",
        {Arg::of(of), literal(std::vector<int64_t>{over}), literal(true), literal(c10::IValue())},
        dtype_, sizes);
  }
  // Of all elements of a group, by the sums of its channels.
  ValueId group_mean(ValueId channel_sums) {
    const ValueId all = sum(weighted(channel_sums, by_channel_), 2, by_group_);
    const auto elements = static_cast<double>(sizes_[2] * sizes_[3]);
    return made_.add("aten::div", "Tensor", {Arg::of(all), number_as_tensor(elements)}, dtype_,
                     by_group_);
  }
  // As the result of that number.
  void end(ValueId value, size_t number) {
    const ValueId result = call_.results.at(number).values.at(0);
    const Dims& sizes = made_.type(result).sizes;
    made_.add(find_op("aten::_unsafe_view", ""),
              {Arg::of(value), literal(std::vector<int64_t>(sizes.begin(), sizes.end()))},
              {result});
  }

  const Call& call_;
  MadeCalls made_;
  c10::ScalarType dtype_;
  Dims sizes_, by_group_, by_channel_;
  ValueId grad_ = kNoValue, rstd_ = kNoValue, normal_ = kNoValue;
  ValueId grad_sum_ = kNoValue, slope_sum_ = kNoValue;  // of each channel of a sample
};

}  // namespace

std::vector<Call> parts_of_group_norm_gradients(Trace& trace, const Call& call) {
  const auto mask = call.args.at(9).constant.toBoolList();
  Gradients gradients(trace, call);
  if (mask.get(0)) gradients.of_argument();
  if (mask.get(1)) gradients.of_weight();
  if (mask.get(2)) gradients.of_bias();
  return std::move(gradients).take();
}

}  // namespace fulgurite::catalogue_families::rules
