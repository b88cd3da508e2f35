// Attention.
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include "ops/catalogue/families.h"
#include "ops/meta/tensors.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;
using Optional = std::optional<Tensor>;

// Made with dimensions 1 and 2 swapped, and handed out as a view.
Tensor swapped(IntArrayRef sizes, ScalarType dtype) {
  at::DimVector made(sizes);
  std::swap(made[1], made[2]);
  const Tensor whole = empty(made, dtype);
  at::DimVector strides(whole.strides());
  std::swap(strides[1], strides[2]);
  return view(whole, sizes, strides);
}

void check(const Tensor& query, const Tensor& key, const Tensor& value, double dropout,
           const Optional& mask) {
  TORCH_CHECK(at::isFloatingType(query.scalar_type()),
              "scaled_dot_product_attention_flash_attention: Expected data type in FP32, FP64, "
              "BF16, FP16, but got ",
              query.scalar_type(), " instead.");
  TORCH_CHECK(query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
              "scaled_dot_product_attention_flash_attention: Accept only 4 dims inputs shape of "
              "{B, H, T, K}");
  TORCH_CHECK(dropout == 0.0,
              "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0");
  TORCH_CHECK(query.size(3) == value.size(3) && key.size(3) == value.size(3),
              "scaled_dot_product_attention_flash_attention: Q/K/V should have the same head size");
  if (!defined(mask)) return;
  TORCH_CHECK(mask->scalar_type() == at::kBool || mask->scalar_type() == query.scalar_type() ||
                  at::toOpMathType(query.scalar_type()) == mask->scalar_type(),
              "scaled_dot_product_attention_flash_attention: Attention mask is the same data type "
              "as query");
  TORCH_CHECK(mask->dim() == 2 || mask->dim() == 4,
              "scaled_dot_product_attention_flash_attention: Attention mask dim in {2, 4}");
}

std::tuple<Tensor, Tensor> flash_cpu(const Tensor& query, const Tensor& key, const Tensor& value,
                                     double dropout, bool, const Optional& mask,
                                     std::optional<double>) {
  check(query, key, value, dropout, mask);
  const ScalarType dtype = query.scalar_type();
  return {like(query), swapped(query.sizes().slice(0, 3), at::toOpMathType(dtype))};
}

std::tuple<Tensor, Tensor, Tensor> flash_cpu_backward(const Tensor& grad, const Tensor& query,
                                                      const Tensor& key, const Tensor& value,
                                                      const Tensor&, const Tensor&, double, bool,
                                                      const Optional&, std::optional<double>) {
  if (!grad.defined()) return {};
  return {swapped(query.sizes(), query.scalar_type()), swapped(key.sizes(), key.scalar_type()),
          swapped(value.sizes(), value.scalar_type())};
}

// Of each thread: scores of a block of queries with a block of keys, a maximum and a sum for each
// query, and its results so far.
int64_t scratch_of_flash_cpu(const Trace& trace, const Call& call) {
  const TensorType& query = type_of(trace, call.args[0].values[0]);
  const TensorType& key = type_of(trace, call.args[1].values[0]);
  const int64_t rows = query.sizes[2];
  const int64_t queries = std::min<int64_t>(rows >= 768 ? 256 : rows >= 192 ? 64 : 32, rows);
  const int64_t keys = std::min<int64_t>(512, key.sizes[2]);
  const auto each = static_cast<int64_t>(c10::elementSize(at::toOpMathType(query.dtype)));
  return at::get_num_threads() * each * queries * (keys + 2 + query.sizes[3]);
}

constexpr std::array<const char*, 2> dropout_p{"dropout_p"};

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "scaled_dot_product_attention",
     .doc = "softmax(q kT * scale + mask) v",
     .draws_when = dropout_p},
    {.op = "_scaled_dot_product_attention_math",
     .doc = "the same by matrix products",
     .draws_when = dropout_p},
    {.op = "_scaled_dot_product_flash_attention_for_cpu",
     .doc = "the same block by block; also gives log(sum(exp))",
     .draws_when = dropout_p,
     .meta = rule<&flash_cpu>,
     .scratch = &scratch_of_flash_cpu},
    {.op = "_scaled_dot_product_flash_attention_for_cpu_backward",
     .doc = "the gradients of the same",
     .meta = rule<&flash_cpu_backward>},
    {.op = "_scaled_dot_product_flash_attention",
     .doc = "the same block by block, on CUDA",
     .draws_when = dropout_p},
    {.op = "_scaled_dot_product_efficient_attention",
     .doc = "the same by CUTLASS",
     .draws_when = dropout_p},
    {.op = "_scaled_dot_product_cudnn_attention",
     .doc = "the same by cuDNN",
     .draws_when = dropout_p},
    {.op = "_flash_attention_forward", .doc = "the same, packed", .draws_when = dropout_p},
    {.op = "_efficient_attention_forward", .doc = "the same, packed", .draws_when = dropout_p},
}));

}  // namespace

constinit const std::span<const OpRecord> attention = records;

}  // namespace fulgurite::catalogue_families
