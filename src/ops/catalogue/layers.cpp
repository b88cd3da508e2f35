// Recurrent and transformer layers that run as one operator, and weight normalisation.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/mkldnn_rnn_layer.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <map>
#include <mutex>

#include "ops/catalogue/families.h"
#include "ops/meta/tensors.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;
using Optional = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;

// One direction of one layer of oneDNN's LSTM.
struct Layer {
  int64_t steps, batch, inputs, hidden;
  bool reverse, biases;
  ScalarType dtype;
  auto operator<=>(const Layer&) const = default;
};

// How many bytes oneDNN asks for to keep what the gradient needs. Its formula is its own and
// depends on the processor, so the layer is run once on zeros.
int64_t workspace_bytes(const Layer& layer) {
  static std::mutex mutex;
  static std::map<Layer, int64_t> known;
  std::lock_guard lock(mutex);
  if (const auto it = known.find(layer); it != known.end()) return it->second;
  // Neither a tracer nor a mode of this thread sees the calls.
  c10::impl::ForceDispatchKeyGuard plain(c10::default_included_set, c10::default_excluded_set);
  at::AutoDispatchBelowAutograd below;
  at::AutoGradMode grad(true);
  const auto options = at::TensorOptions().dtype(layer.dtype);
  const int64_t gates = 4 * layer.hidden;
  const Tensor state = at::zeros({1, layer.batch, layer.hidden}, options);
  const auto results = at::mkldnn_rnn_layer(
      at::zeros({layer.steps, layer.batch, layer.inputs}, options),
      at::zeros({gates, layer.inputs}, options), at::zeros({gates, layer.hidden}, options),
      at::zeros({gates}, options), at::zeros({gates}, options), state, state.clone(), layer.reverse,
      {}, /*mode=*/2, layer.hidden, /*num_layers=*/1, layer.biases,
      /*bidirectional=*/false, /*batch_first=*/false, /*train=*/true);
  return known[layer] = std::get<3>(results).numel();
}

// The workspace depends on the grad mode, not on `train`.
std::tuple<Tensor, Tensor, Tensor, Tensor> lstm_layer(const Tensor& input, const Tensor&,
                                                      const Tensor&, const Tensor&, const Tensor&,
                                                      const Tensor& hx, const Tensor& cx,
                                                      bool reverse, IntArrayRef, int64_t,
                                                      int64_t hidden, int64_t, bool biases, bool,
                                                      bool, bool) {
  TORCH_CHECK(input.dim() == 3, "expected an input of 3 dimensions, got ", input.dim());
  const ScalarType dtype = input.scalar_type();
  const Layer layer{input.size(0), input.size(1), input.size(2), hidden, reverse, biases, dtype};
  Tensor workspace;
  if (at::GradMode::is_enabled()) workspace = empty({workspace_bytes(layer)}, at::kByte);
  return {empty({layer.steps, layer.batch, hidden}, dtype), contiguous_like(hx),
          contiguous_like(cx), workspace};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> lstm_layer_backward(
    const Tensor& input, const Tensor& w_ih, const Tensor& w_hh, const Tensor& b_ih, const Tensor&,
    const Tensor& hx, const Tensor& cx, const Tensor&, const Tensor&, const Tensor&,
    const Optional& grad_output, const Optional& grad_hy, const Optional& grad_cy, bool, int64_t,
    int64_t hidden, int64_t, bool, bool, bool, IntArrayRef, bool, const Tensor&) {
  if (!defined(grad_output) && !defined(grad_hy) && !defined(grad_cy)) return {};
  const auto in_float = [](const Tensor& t) { return empty(t.sizes(), at::kFloat); };
  const Tensor bias = empty({4 * hidden}, at::kFloat);
  return {in_float(input), in_float(w_ih), in_float(w_hh), bias, bias, in_float(hx), in_float(cx)};
}

Tensor encoder_layer(const Tensor& src, int64_t, int64_t, const Tensor&, const Tensor&,
                     const Tensor&, const Tensor&, bool, bool, double, const Tensor&, const Tensor&,
                     const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                     const Tensor&, const Optional&, std::optional<int64_t>) {
  return contiguous_like(src);
}

Pair multi_head_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          int64_t embed_dim, int64_t heads, const Tensor& qkv_weight,
                          const Tensor& qkv_bias, const Tensor&, const Tensor&, const Optional&,
                          bool need_weights, bool average, std::optional<int64_t>) {
  for (const Tensor& t : {query, key, value})
    TORCH_CHECK(t.dim() == 3, "expected 3-D `query`, `key` and `value`, got ", t.dim(),
                "-D tensor");
  TORCH_CHECK(query.size(2) == embed_dim, "passed-in embed_dim ", embed_dim,
              " didn't match last dim of query ", query.size(2));
  TORCH_CHECK(query.sizes() == key.sizes() && key.sizes() == value.sizes(),
              "expected `query`/`key`/`value` shapes to match");
  TORCH_CHECK(qkv_weight.dim() == 2 && qkv_weight.size(0) == 3 * embed_dim &&
                  qkv_weight.size(1) == embed_dim,
              "expected `qkv_weight` of size ", 3 * embed_dim, ", ", embed_dim);
  TORCH_CHECK(qkv_bias.dim() == 1 && qkv_bias.size(0) == 3 * embed_dim,
              "expected `qkv_bias` first dim and first dim of query to be equal");
  TORCH_CHECK(embed_dim % heads == 0, "`embed_dim` must divide evenly by `num_heads`");
  const int64_t batch = query.size(0), steps = query.size(1);
  const Tensor output = contiguous_like(query);
  if (!need_weights) return {output, Tensor()};
  return {output, average ? empty({batch, steps, steps}, query.scalar_type())
                          : empty({batch, heads, steps, steps}, query.scalar_type())};
}

Pair weight_norm(const Tensor& v, const Tensor& g, int64_t) {
  const ScalarType dtype = g.scalar_type() == at::kBFloat16 ? at::kFloat : g.scalar_type();
  return {contiguous_like(v), empty(g.sizes(), dtype)};
}
Pair weight_norm_backward(const Tensor&, const Tensor& v, const Tensor& g, const Tensor&, int64_t) {
  return {contiguous_like(v), contiguous_like(g)};
}

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "mkldnn_rnn_layer",
     .doc = "one direction of an LSTM layer by oneDNN",
     .meta = rule<&lstm_layer>},
    {.op = "mkldnn_rnn_layer_backward",
     .doc = "the gradients of mkldnn_rnn_layer",
     .meta = rule<&lstm_layer_backward>},
    {.op = "_transformer_encoder_layer_fwd",
     .doc = "an encoder layer, for inference",
     .meta = rule<&encoder_layer>},
    {.op = "_native_multi_head_attention",
     .doc = "attention with its projections, for inference",
     .meta = rule<&multi_head_attention>},
    {.op = "_weight_norm_interface", .doc = "g v / |v|, and |v|", .meta = rule<&weight_norm>},
    {.op = "_weight_norm_interface_backward",
     .doc = "the gradients of _weight_norm_interface",
     .meta = rule<&weight_norm_backward>},
}));

}  // namespace

constinit const std::span<const OpRecord> layers = records;

}  // namespace fulgurite::catalogue_families
