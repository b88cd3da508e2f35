// Losses and their gradients.
#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/native/LossMulti.h>

#include "ops/catalogue/families.h"
#include "ops/catalogue/loss_rules.h"
#include "ops/catalogue/pair_losses.h"
#include "ops/meta/iterator.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;
using at::Scalar;
using Optional = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;

Tensor reduced(const Tensor& each, int64_t reduction) {
  return reduction == at::Reduction::None ? each : empty({}, each.scalar_type());
}

// Gradients of elementwise losses, of the input's size unless the gradient is larger.
Tensor elementwise_backward(const Tensor& grad, const Tensor& input, const Tensor& target) {
  const auto sizes = at::infer_size(at::infer_size(input.sizes(), target.sizes()), grad.sizes());
  return empty(sizes, input.scalar_type());
}
Tensor mse_loss_backward(const Tensor& grad, const Tensor& input, const Tensor& target, int64_t) {
  return elementwise_backward(grad, input, target);
}
Tensor with_threshold_backward(const Tensor& grad, const Tensor& input, const Tensor& target,
                               int64_t, double) {
  return elementwise_backward(grad, input, target);
}
Tensor huber_loss(const Tensor& input, const Tensor& target, int64_t reduction, double delta) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  return reduced(like(binary(input, target), input.scalar_type()), reduction);
}

void check_same_size(const Tensor& input, const Tensor& target) {
  TORCH_CHECK(input.sizes() == target.sizes(), "input and target must have the same size, got ",
              input.sizes(), " and ", target.sizes());
}
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Optional&,
                            int64_t reduction) {
  check_same_size(input, target);
  const Tensor each = like(input);
  if (reduction == at::Reduction::None) return each;
  return view(each, {}, {});  // the reduction is written into the elementwise loss
}
Tensor binary_cross_entropy_backward(const Tensor&, const Tensor& input, const Tensor&,
                                     const Optional&, int64_t) {
  return like(input);
}
// The losses are computed in a tensor like the input, whatever the target is.
Tensor soft_margin_loss(const Tensor& input, const Tensor& target, int64_t reduction) {
  const Tensor both = binary(input, target), each = unary(input);
  TORCH_CHECK(both.sizes() == input.sizes(), "output with shape ", input.sizes(),
              " doesn't match the broadcast shape ", both.sizes());
  return reduction == at::Reduction::None ? each : view(each, {}, {});
}

// Negative log likelihood over images.

void check_images(const Tensor& self, const Tensor& target, const Optional& weight) {
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got targets of "
              "dimension: ",
              target.dim());
  TORCH_CHECK(self.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got input of "
              "dimension: ",
              self.dim());
  TORCH_CHECK(!defined(weight) || weight->numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) &&
                  self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
}
Pair nll_loss2d_forward(const Tensor& self, const Tensor& target, const Optional& weight,
                        int64_t reduction, int64_t) {
  check_images(self, target, weight);
  const bool none = reduction == at::Reduction::None;
  return {empty(none ? target.sizes() : IntArrayRef(), self.scalar_type()),
          empty({}, self.scalar_type())};
}
Tensor nll_loss2d_backward(const Tensor&, const Tensor& self, const Tensor& target,
                           const Optional& weight, int64_t, int64_t, const Tensor&) {
  check_images(self, target, weight);
  TORCH_CHECK(like(self).is_contiguous(), "grad_input must be contiguous");
  return contiguous_like(self);
}

// Margins.

Tensor multi_margin_loss(const Tensor& self, const Tensor& target, const Scalar& p, const Scalar&,
                         const Optional& weight, int64_t reduction) {
  TORCH_CHECK(p.equal(1) || p.equal(2), "only p == 1 and p == 2 supported");
  int64_t frames = 0, classes = 0;
  at::native::multi_margin_loss_shape_check(frames, classes, self.dim(), self, target, weight);
  const bool each = reduction == at::Reduction::None && target.dim() > 0;
  return empty(each ? target.sizes() : IntArrayRef(), self.scalar_type());
}
Pair multilabel_margin_loss(const Tensor& self, const Tensor& target, int64_t reduction) {
  int64_t frames = 0, classes = 0;
  at::native::multilabel_margin_loss_shape_check(frames, classes, self.dim(), self, target);
  const bool each = reduction == at::Reduction::None && target.dim() > 1;
  return {each ? empty({target.size(0)}, self.scalar_type()) : empty({}, self.scalar_type()),
          empty(target.sizes(), self.scalar_type())};
}

Tensor multi_margin_loss_backward(const Tensor&, const Tensor& self, const Tensor& target,
                                  const Scalar& p, const Scalar&, const Optional& weight, int64_t) {
  TORCH_CHECK(p.equal(1) || p.equal(2), "only p == 1 and p == 2 supported");
  int64_t frames = 0, classes = 0;
  at::native::multi_margin_loss_shape_check(frames, classes, self.dim(), self, target, weight);
  return contiguous_like(self);
}
Tensor multilabel_margin_loss_backward(const Tensor&, const Tensor& self, const Tensor& target,
                                       int64_t, const Tensor& is_target) {
  int64_t frames = 0, classes = 0;
  at::native::multilabel_margin_loss_shape_check(frames, classes, self.dim(), self, target);
  check_same_size(target, is_target);
  return contiguous_like(self);
}

// Connectionist temporal classification.
Tensor ctc_loss_backward(const Tensor&, const Tensor& log_probs, const Tensor&, IntArrayRef,
                         IntArrayRef, const Tensor&, const Tensor&, int64_t, bool) {
  return contiguous_like(log_probs);
}
Tensor ctc_loss_backward_tensors(const Tensor&, const Tensor& log_probs, const Tensor&,
                                 const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                 int64_t, bool) {
  return contiguous_like(log_probs);
}

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "ctc_loss.IntList", .doc = "labels without an alignment", .checks_data = true},
    {.op = "ctc_loss.Tensor", .doc = "labels without an alignment", .checks_data = true},
    {.op = "mse_loss",
     .doc = "the squared error",
     .pointwise = rules::each_loss<&rules::mse_loss>,
     .row = rules::all_losses<&rules::mse_loss, 2>},
    {.op = "smooth_l1_loss",
     .doc = "the absolute error, squared below beta",
     .pointwise = rules::each_loss<&rules::smooth_l1_loss>,
     .row = rules::all_losses<&rules::smooth_l1_loss, 2>},
    {.op = "binary_cross_entropy_with_logits",
     .doc = "binary_cross_entropy of sigmoid(x)",
     .pointwise = rules::each_loss<&rules::binary_cross_entropy_with_logits>,
     .row = rules::all_losses<&rules::binary_cross_entropy_with_logits, 4>},
    {.op = "mse_loss_backward",
     .doc = "the gradient of the squared error",
     .element = {&rules::mse_gradient},
     .meta = rule<&mse_loss_backward>},
    {.op = "smooth_l1_loss_backward",
     .doc = "the gradient of the smooth absolute error",
     .element = {&rules::smooth_l1_gradient},
     .meta = rule<&with_threshold_backward>},
    {.op = "huber_loss",
     .doc = "squared error below delta",
     .pointwise = rules::each_loss<&rules::huber_loss>,
     .row = rules::all_losses<&rules::huber_loss, 2>,
     .meta = rule<&huber_loss>},
    {.op = "huber_loss_backward",
     .doc = "the gradient of huber_loss",
     .element = {&rules::huber_gradient},
     .meta = rule<&with_threshold_backward>},
    {.op = "binary_cross_entropy",
     .doc = "-(t log(x) + (1 - t) log(1 - x))",
     .pointwise = rules::each_loss<&rules::binary_cross_entropy>,
     .row = rules::all_losses<&rules::binary_cross_entropy, 3>,
     .meta = rule<&binary_cross_entropy>},
    {.op = "binary_cross_entropy_backward",
     .doc = "the gradient of binary_cross_entropy",
     .element = {&rules::binary_cross_entropy_gradient},
     .meta = rule<&binary_cross_entropy_backward>},
    {.op = "soft_margin_loss",
     .doc = "log(1 + exp(-tx))",
     .pointwise = rules::each_loss<&rules::soft_margin_loss>,
     .row = rules::all_losses<&rules::soft_margin_loss, 2>,
     .meta = rule<&soft_margin_loss>},
    {.op = "nll_loss_forward",
     .doc = "minus the score of each target's class, and the weights' sum",
     .element = {&rules::score_of_class},
     .parts = &rules::parts_of_nll_loss},
    {.op = "nll_loss_backward",
     .doc = "the gradient of nll_loss_forward",
     .element = {&rules::gradient_of_class}},
    {.op = "cross_entropy_loss",
     .doc = "nll_loss of log_softmax, or of probabilities",
     .parts = &rules::parts_of_smooth_cross_entropy},
    {.op = "nll_loss2d_forward",
     .doc = "minus the score of each pixel's class, and the weights' sum",
     .element = {&rules::score_of_class},
     .parts = &rules::parts_of_nll_loss,
     .meta = rule<&nll_loss2d_forward>},
    {.op = "nll_loss2d_backward",
     .doc = "the gradient of nll_loss2d_forward",
     .element = {&rules::gradient_of_class},
     .meta = rule<&nll_loss2d_backward>},
    {.op = "multi_margin_loss",
     .doc = "the margin of one class over the others",
     .meta = rule<&multi_margin_loss>},
    {.op = "multilabel_margin_loss_forward",
     .doc = "the margin of some classes over the others",
     .meta = rule<&multilabel_margin_loss>},
    {.op = "multi_margin_loss_backward",
     .doc = "the gradient of multi_margin_loss",
     .meta = rule<&multi_margin_loss_backward>},
    {.op = "multilabel_margin_loss_backward",
     .doc = "the gradient of multilabel_margin_loss_forward",
     .meta = rule<&multilabel_margin_loss_backward>},
    {.op = "_ctc_loss_backward",
     .doc = "the gradient of _ctc_loss",
     .meta = rule<&ctc_loss_backward>},
    {.op = "_ctc_loss_backward.Tensor",
     .doc = "the gradient of _ctc_loss.Tensor",
     .meta = rule<&ctc_loss_backward_tensors>},
    {.op = "_ctc_loss", .doc = "connectionist temporal classification", .fixed_shape = true},
}));

}  // namespace

constinit const std::span<const OpRecord> losses = records;

}  // namespace fulgurite::catalogue_families
