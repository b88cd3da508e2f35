// Normalisation over layers, groups and batches.
#include <ATen/native/cpu/mixed_data_type.h>
#include <ATen/native/layer_norm.h>

#include "ops/catalogue/families.h"
#include "ops/catalogue/norm_rules.h"
#include "ops/meta/writing.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;
using Optional = std::optional<Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;
using Mask = std::array<bool, 3>;

Tensor value_of(const Optional& tensor) { return tensor.value_or(Tensor()); }

// The dtype of statistics and of parameters' gradients: that of the parameters.
template <class... Parameters>
ScalarType statistics_dtype(const Tensor& input, const Parameters&... parameters) {
  const bool mixed = at::native::is_mixed_type(input, parameters...);
  if (mixed) at::native::check_mixed_data_type(input, parameters...);
  return at::native::param_scalar_type(input, mixed);
}

// Layers.

Triple layer_norm(const Tensor& input, IntArrayRef shape, const Optional& weight_opt,
                  const Optional& bias_opt, double) {
  const Tensor weight = value_of(weight_opt), bias = value_of(bias_opt);
  at::native::_check_layer_norm_inputs(input, shape, weight, bias);
  const ScalarType dtype = statistics_dtype(input, weight, bias);
  at::DimVector sizes(input.sizes());
  std::fill(sizes.end() - static_cast<int64_t>(shape.size()), sizes.end(), 1);
  return {contiguous_like(input), empty(sizes, dtype), empty(sizes, dtype)};
}

Triple layer_norm_backward(const Tensor& grad, const Tensor& input, IntArrayRef shape,
                           const Tensor&, const Tensor&, const Optional& weight_opt,
                           const Optional& bias_opt, Mask mask) {
  const Tensor weight = value_of(weight_opt), bias = value_of(bias_opt);
  at::native::_check_layer_norm_inputs(input, shape, weight, bias);
  Triple result;
  if (mask[0]) std::get<0>(result) = contiguous_like(input);
  if (mask[1]) std::get<1>(result) = contiguous_like(weight.defined() ? weight : bias);
  if (mask[2]) std::get<2>(result) = contiguous_like(weight.defined() ? weight : bias);
  return result;
}

// Groups.

Triple group_norm(const Tensor& input, const Optional& weight_opt, const Optional& bias_opt,
                  int64_t n, int64_t channels, int64_t, int64_t groups, double) {
  const Tensor weight = value_of(weight_opt), bias = value_of(bias_opt);
  TORCH_CHECK(groups > 0 && channels % groups == 0,
              "Expected number of channels in input to be divisible by num_groups, but got input "
              "of shape ",
              input.sizes(), " and num_groups=", groups);
  for (const Tensor& parameter : {weight, bias})
    TORCH_CHECK(!parameter.defined() || (parameter.dim() == 1 && parameter.numel() == channels),
                "Expected a vector of size equal to the number of channels in input");
  const MemoryFormat format = input.suggest_memory_format();
  TORCH_CHECK(input.is_contiguous(format), "group_norm expects a contiguous input");
  const ScalarType dtype = statistics_dtype(input, weight, bias);
  return {like(input, format), empty({n, groups}, dtype), empty({n, groups}, dtype)};
}

Triple group_norm_backward(const Tensor& grad, const Tensor& input, const Tensor&, const Tensor&,
                           const Optional& weight, int64_t, int64_t channels, int64_t, int64_t,
                           Mask mask) {
  TORCH_CHECK(input.scalar_type() == grad.scalar_type(),
              "Expected scalar types of X and dY are same.");
  Triple result;
  if (mask[0]) std::get<0>(result) = like(input, input.suggest_memory_format());
  if (mask[1]) std::get<1>(result) = contiguous_like(*weight);
  if (mask[2]) std::get<2>(result) = contiguous_like(*weight);
  return result;
}

// Batches.

void check_channels(const Tensor& parameter, int64_t channels, const char* name) {
  TORCH_CHECK(!parameter.defined() || parameter.numel() == channels, name, " should contain ",
              channels, " elements not ", parameter.defined() ? parameter.numel() : 0);
}

bool is_dense(const Tensor& t) {
  return t.is_contiguous() || t.is_contiguous(MemoryFormat::ChannelsLast) ||
         t.is_contiguous(MemoryFormat::ChannelsLast3d);
}
// ATen's kernels for memory without gaps ask in another order what format that is: of one that is
// several at once, with one channel or one place, they make another than suggest_memory_format().
MemoryFormat batch_format(const Tensor& input, bool dense) {
  if (!dense) return input.suggest_memory_format();
  if (input.is_contiguous()) return MemoryFormat::Contiguous;
  return input.is_contiguous(MemoryFormat::ChannelsLast3d) ? MemoryFormat::ChannelsLast3d
                                                           : MemoryFormat::ChannelsLast;
}

Triple batch_norm_results(const Tensor& input, const Tensor& weight, const Tensor& bias,
                          const Tensor& mean, const Tensor& var, bool train) {
  TORCH_CHECK(input.dim() >= 2, "Expected at least 2 dimensions, but got ", input.dim());
  const int64_t channels = input.size(1);
  check_channels(weight, channels, "weight");
  check_channels(bias, channels, "bias");
  check_channels(mean, channels, "running_mean");
  check_channels(var, channels, "running_var");
  const ScalarType dtype = statistics_dtype(input, weight, bias, mean, var);
  bool dense = is_dense(input);
  for (const Tensor* parameter : {&weight, &bias, &mean, &var})
    dense = dense && (!parameter->defined() || parameter->is_contiguous());
  const Tensor output = like(input, batch_format(input, dense));
  const int64_t statistics = train ? channels : 0;
  return {output, empty({statistics}, dtype), empty({statistics}, dtype)};
}

Triple batch_norm(const Tensor& input, const Optional& weight, const Optional& bias,
                  const Optional& mean, const Optional& var, bool train, double, double) {
  return batch_norm_results(input, value_of(weight), value_of(bias), value_of(mean), value_of(var),
                            train);
}
Triple batch_norm_legit(const Tensor& input, const Optional& weight, const Optional& bias,
                        Tensor& mean, Tensor& var, bool train, double, double) {
  return batch_norm_results(input, value_of(weight), value_of(bias), mean, var, train);
}
Triple batch_norm_no_stats(const Tensor& input, const Optional& weight, const Optional& bias,
                           bool train, double, double) {
  return batch_norm_results(input, value_of(weight), value_of(bias), {}, {}, train);
}
Triple batch_norm_no_training(const Tensor& input, const Optional& weight, const Optional& bias,
                              const Tensor& mean, const Tensor& var, double, double) {
  return batch_norm_results(input, value_of(weight), value_of(bias), mean, var, false);
}
using Outs = std::tuple<Tensor&, Tensor&, Tensor&>;
Outs batch_norm_out(const Tensor& input, const Optional& weight, const Optional& bias,
                    const Optional& mean, const Optional& var, bool train, double, double,
                    Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  const auto [like_out, like_mean, like_invstd] = batch_norm_results(
      input, value_of(weight), value_of(bias), value_of(mean), value_of(var), train);
  take_geometry(out, contiguous_like(like_out));
  if (train) {
    take_geometry(save_mean, like_mean);
    take_geometry(save_invstd, like_invstd);
  }
  return {out, save_mean, save_invstd};
}
Outs batch_norm_legit_out(const Tensor& input, const Optional& weight, const Optional& bias,
                          Tensor& mean, Tensor& var, bool train, double momentum, double eps,
                          Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  return batch_norm_out(input, weight, bias, mean, var, train, momentum, eps, out, save_mean,
                        save_invstd);
}
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> batch_norm_functional(
    const Tensor& input, const Optional& weight, const Optional& bias, const Tensor& mean,
    const Tensor& var, bool train, double, double) {
  return std::tuple_cat(
      batch_norm_results(input, value_of(weight), value_of(bias), mean, var, train),
      std::tuple(like(mean), like(var)));
}
std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_with_update(const Tensor& input,
                                                                  const Optional& weight,
                                                                  const Optional& bias,
                                                                  Tensor& mean, Tensor& var, double,
                                                                  double) {
  return std::tuple_cat(
      batch_norm_results(input, value_of(weight), value_of(bias), mean, var, true),
      std::tuple(empty({0}, at::kByte)));
}
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> batch_norm_with_update_functional(
    const Tensor& input, const Optional& weight, const Optional& bias, const Tensor& mean,
    const Tensor& var, double, double) {
  return std::tuple_cat(
      batch_norm_results(input, value_of(weight), value_of(bias), mean, var, true),
      std::tuple(empty({0}, at::kByte), like(mean), like(var)));
}

Triple batch_norm_gradients(const Tensor& grad, const Tensor& input, ScalarType dtype, Mask mask) {
  const bool dense = is_dense(input) && is_dense(grad) &&
                     input.suggest_memory_format() == grad.suggest_memory_format();
  Triple result;
  if (mask[0]) std::get<0>(result) = like(input, batch_format(input, dense));
  if (mask[1]) std::get<1>(result) = empty({input.size(1)}, dtype);
  if (mask[2]) std::get<2>(result) = empty({input.size(1)}, dtype);
  return result;
}
Triple native_batch_norm_gradients(const Tensor& grad, const Tensor& input, const Optional& weight,
                                   const Optional& running_mean, const Optional& running_var,
                                   const Optional& mean, const Optional& rstd, bool, double,
                                   Mask mask) {
  const ScalarType dtype = statistics_dtype(input, value_of(weight), value_of(running_mean),
                                            value_of(running_var), value_of(mean), value_of(rstd));
  return batch_norm_gradients(grad, input, dtype, mask);
}
Triple batch_norm_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                           const Optional& running_mean, const Optional& running_var,
                           const Optional& mean, const Optional& rstd, bool train, double eps,
                           Mask mask, const Tensor&) {
  return native_batch_norm_gradients(grad, input, weight, running_mean, running_var, mean, rstd,
                                     train, eps, mask);
}

constexpr HiddenWrites running(const char* flag) { return {{"running_mean", "running_var"}, flag}; }

constexpr RowRule in_training(RowRule rule) {
  rule.when = "training";
  return rule;
}
constexpr RowRule by_mask(RowRule rule) {
  rule.by_mask = true;
  return rule;
}
constexpr RowRule batch_statistics =
    in_training(reduces(Reduces::Batch, calls<&rules::row_batch_statistics>));
constexpr RowRule batch_gradients =
    reduces(Reduces::Batch, calls<&rules::row_batch_norm_gradients>);

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "native_layer_norm",
     .doc = "normalises the last dimensions; also gives mean and 1/std",
     .row = reduces(Reduces::Trailing, calls<&rules::row_layer_norm>),
     .meta = rule<&layer_norm>},
    {.op = "native_layer_norm_backward",
     .doc = "the gradients of native_layer_norm",
     .row = by_mask(reduces(Reduces::Trailing, calls<&rules::row_layer_norm_gradients>)),
     .parts = &rules::parts_of_layer_norm_gradients,
     .meta = rule<&layer_norm_backward>},
    {.op = "native_group_norm",
     .doc = "normalises groups of channels; also gives mean and 1/std",
     .row = reduces(Reduces::Groups, calls<&rules::row_group_norm>),
     .meta = rule<&group_norm>},
    {.op = "native_group_norm_backward",
     .doc = "the gradients of native_group_norm",
     .parts = &rules::parts_of_group_norm_gradients,
     .meta = rule<&group_norm_backward>},

    {.op = "native_batch_norm",
     .doc = "normalises each channel over the batch; also gives mean and 1/std",
     .hidden_writes = running("training"),
     .functional = "aten::_native_batch_norm_legit_functional",
     .pointwise = rules::batch_norm_rule,
     .row = batch_statistics,
     .meta = rule<&batch_norm>},
    {.op = "_native_batch_norm_legit",
     .doc = "native_batch_norm with running statistics",
     .pointwise = rules::batch_norm_rule,
     .row = batch_statistics,
     .meta = rule<&batch_norm_legit>},
    {.op = "_native_batch_norm_legit.no_stats",
     .doc = "native_batch_norm without running statistics",
     .pointwise = rules::batch_norm_rule,
     .row = batch_statistics,
     .meta = rule<&batch_norm_no_stats>},
    {.op = "_native_batch_norm_legit_no_training",
     .doc = "native_batch_norm by the running statistics",
     .pointwise = rules::batch_norm_rule,
     .meta = rule<&batch_norm_no_training>},
    {.op = "_native_batch_norm_legit_functional",
     .doc = "native_batch_norm, and the new running statistics",
     .pointwise = rules::batch_norm_rule,
     .row = in_training(reduces(Reduces::Batch, calls<&rules::row_batch_and_running_statistics>)),
     .meta = rule<&batch_norm_functional>},
    {.op = "_batch_norm_with_update",
     .doc = "native_batch_norm in training, and what its gradient needs",
     .meta = rule<&batch_norm_with_update>},
    {.op = "_batch_norm_with_update_functional",
     .doc = "_batch_norm_with_update, and the new running statistics",
     .row = reduces(Reduces::Batch, calls<&rules::row_batch_norm_with_update>),
     .meta = rule<&batch_norm_with_update_functional>},
    {.op = "native_batch_norm_backward",
     .doc = "the gradients of native_batch_norm",
     .row = batch_gradients,
     .meta = rule<&native_batch_norm_gradients>},
    {.op = "batch_norm_backward",
     .doc = "the gradients of _batch_norm_with_update",
     .row = batch_gradients,
     .meta = rule<&batch_norm_backward>},

    {.op = "batch_norm",
     .doc = "normalises each channel over the batch",
     .hidden_writes = running("training")},
    {.op = "native_batch_norm.out",
     .doc = "native_batch_norm into given tensors",
     .hidden_writes = running("training"),
     .meta = rule<&batch_norm_out>},
    {.op = "_native_batch_norm_legit.out",
     .doc = "_native_batch_norm_legit into given tensors",
     .meta = rule<&batch_norm_legit_out>},
    {.op = "cudnn_batch_norm",
     .doc = "native_batch_norm by cuDNN",
     .hidden_writes = running("training")},
    {.op = "cudnn_batch_norm.out",
     .doc = "cudnn_batch_norm into given tensors",
     .hidden_writes = running("training")},
    {.op = "miopen_batch_norm",
     .doc = "native_batch_norm by MIOpen",
     .hidden_writes = running("training")},
    {.op = "miopen_batch_norm.out",
     .doc = "miopen_batch_norm into given tensors",
     .hidden_writes = running("training")},
    {.op = "_batch_norm_impl_index",
     .doc = "batch_norm by the best backend, and which one that was",
     .hidden_writes = running("training")},
    {.op = "batch_norm_update_stats",
     .doc = "mean and variance of each channel, merged into the running ones",
     .hidden_writes = running("")},
    {.op = "batch_norm_update_stats.out",
     .doc = "batch_norm_update_stats into given tensors",
     .hidden_writes = running("")},
    {.op = "batch_norm_gather_stats",
     .doc = "merges statistics of several devices, also into the running ones",
     .hidden_writes = running("")},
    {.op = "batch_norm_gather_stats.out",
     .doc = "batch_norm_gather_stats into given tensors",
     .hidden_writes = running("")},
    {.op = "batch_norm_gather_stats_with_counts",
     .doc = "batch_norm_gather_stats with a batch size per device",
     .hidden_writes = running("")},
    {.op = "batch_norm_gather_stats_with_counts.out",
     .doc = "batch_norm_gather_stats_with_counts into given tensors",
     .hidden_writes = running("")},
    {.op = "instance_norm",
     .doc = "normalises each channel of each sample",
     .hidden_writes = running("use_input_stats")},
}));

}  // namespace

constinit const std::span<const OpRecord> norms = records;

}  // namespace fulgurite::catalogue_families
