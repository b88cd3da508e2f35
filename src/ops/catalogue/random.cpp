// When operators tagged as random draw. The tag alone means: always.
#include "ops/catalogue/draw_rules.h"
#include "ops/catalogue/families.h"
#include "ops/meta/iterator.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;
using Generator = std::optional<at::Generator>;

Tensor bernoulli(const Tensor& self, Generator) { return contiguous_like(self); }
Tensor bernoulli_p(const Tensor& self, double p, Generator) {
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  return contiguous_like(self);
}
Tensor poisson(const Tensor& self, Generator) { return contiguous_like(self); }
Tensor multinomial(const Tensor& self, int64_t samples, bool replacement, Generator) {
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(
      at::isFloatingType(self.scalar_type()),
      "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(self.size(-1) <= int64_t{1} << 24, "number of categories cannot exceed 2^24");
  TORCH_CHECK(samples > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(replacement || samples <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  return self.dim() == 1 ? empty({samples}, at::kLong) : empty({self.size(0), samples}, at::kLong);
}
std::tuple<Tensor, Tensor> native_dropout(const Tensor& self, double, std::optional<bool> train) {
  if (self.numel() == 0) return {self, like(self)};
  if (train.value_or(true)) {
    const Tensor mask = like(self, at::kBool);
    return {binary(self, mask), mask};
  }
  return {like(self), empty(self.sizes(), at::kBool)};
}
Tensor native_dropout_backward(const Tensor& grad, const Tensor& mask, double) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be Bool Scalar Type",
              mask.scalar_type());
  // The scale is a Python float.
  return binary(binary(grad, mask), number(1.0));
}

constexpr std::array<const char*, 2> train{"train"}, training{"training"},
    train_and_dropout{"train", "dropout"};

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "dropout",
     .doc = "zeroes elements at random, scales the others",
     .draws_when = train,
     .draw = {&rules::dropout_elements, &rules::dropout_of}},
    {.op = "dropout_", .doc = "dropout in place", .draws_when = train},
    {.op = "native_dropout",
     .doc = "dropout, and its mask",
     .draws_when = train,
     .draw = {&rules::native_dropout_elements, &rules::native_dropout_of},
     .meta = rule<&native_dropout>},
    {.op = "native_dropout_backward",
     .doc = "the gradient of native_dropout",
     .pointwise = elementwise([](Raw grad, fulgurite::Scalar mask, fulgurite::Scalar scale) {
       if (!grad.value.is_float()) throw Unsupported("a gradient of integers");
       return convert(grad.value, mask.dtype()) * mask * scale;
     }),
     .meta = rule<&native_dropout_backward>},
    {.op = "bernoulli",
     .doc = "1 with probability x, else 0",
     .draw = {&rules::bernoulli_elements, &rules::bernoulli_of},
     .meta = rule<&bernoulli>},
    {.op = "bernoulli.p",
     .doc = "1 with probability p, else 0",
     .draw = {&rules::bernoulli_p_elements, &rules::bernoulli_p_of},
     .meta = rule<&bernoulli_p>},
    {.op = "uniform",
     .doc = "uniform numbers in [from, to)",
     .draw = {&rules::uniform_elements, &rules::uniform_of}},
    {.op = "poisson", .doc = "counts with these means", .meta = rule<&poisson>},
    {.op = "_standard_gamma", .doc = "gamma variates", .meta = rule<&poisson>},
    {.op = "multinomial", .doc = "numbers of drawn categories", .meta = rule<&multinomial>},
    {.op = "feature_dropout", .doc = "zeroes channels at random", .draws_when = train},
    {.op = "feature_dropout_", .doc = "feature_dropout in place", .draws_when = train},
    {.op = "alpha_dropout", .doc = "dropout that keeps mean and variance", .draws_when = train},
    {.op = "alpha_dropout_", .doc = "alpha_dropout in place", .draws_when = train},
    {.op = "feature_alpha_dropout", .doc = "alpha_dropout of channels", .draws_when = train},
    {.op = "feature_alpha_dropout_", .doc = "the same in place", .draws_when = train},
    {.op = "lstm.input", .doc = "LSTM layers", .draws_when = train_and_dropout},
    {.op = "lstm.data", .doc = "LSTM layers, packed", .draws_when = train_and_dropout},
    {.op = "gru.input", .doc = "GRU layers", .draws_when = train_and_dropout},
    {.op = "gru.data", .doc = "GRU layers, packed", .draws_when = train_and_dropout},
    {.op = "rnn_tanh.input", .doc = "tanh layers", .draws_when = train_and_dropout},
    {.op = "rnn_tanh.data", .doc = "tanh layers, packed", .draws_when = train_and_dropout},
    {.op = "rnn_relu.input", .doc = "relu layers", .draws_when = train_and_dropout},
    {.op = "rnn_relu.data", .doc = "relu layers, packed", .draws_when = train_and_dropout},
    {.op = "_cudnn_rnn", .doc = "recurrent layers by cuDNN", .draws_when = train_and_dropout},

    // Neither tagged nor given a generator.
    {.op = "quantized::dropout",
     .doc = "dropout of a quantised tensor",
     .draws_when = training,
     .random = true},
    {.op = "quantized_lstm.input",
     .doc = "quantised LSTM layers",
     .draws_when = train_and_dropout,
     .random = true},
    {.op = "quantized_lstm.input_legacy",
     .doc = "quantised LSTM layers, weights as tensors",
     .draws_when = train_and_dropout,
     .random = true},
    {.op = "quantized_lstm.data_legacy",
     .doc = "quantised LSTM layers, packed, weights as tensors",
     .draws_when = train_and_dropout,
     .random = true},
    {.op = "quantized_lstm.data",
     .doc = "quantised LSTM layers, packed",
     .draws_when = train_and_dropout,
     .random = true},
    {.op = "quantized_gru.input",
     .doc = "quantised GRU layers",
     .draws_when = train_and_dropout,
     .random = true},
    {.op = "quantized_gru.input_legacy",
     .doc = "quantised GRU layers, weights as tensors",
     .draws_when = train_and_dropout,
     .random = true},
    {.op = "quantized_gru.data_legacy",
     .doc = "quantised GRU layers, packed, weights as tensors",
     .draws_when = train_and_dropout,
     .random = true},
    {.op = "quantized_gru.data",
     .doc = "quantised GRU layers, packed",
     .draws_when = train_and_dropout,
     .random = true},
}));

}  // namespace

constinit const std::span<const OpRecord> random = records;

}  // namespace fulgurite::catalogue_families
