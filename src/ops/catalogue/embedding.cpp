// Embeddings.
#include "ops/catalogue/element_rules.h"
#include "ops/catalogue/families.h"
#include "ops/meta/tensors.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;
using Optional = std::optional<Tensor>;
using Bags = std::tuple<Tensor, Tensor, Tensor, Tensor>;

enum Mode : int64_t { kSum, kMean, kMax };

bool is_index(const Tensor& t) {
  return t.scalar_type() == at::kLong || t.scalar_type() == at::kInt;
}

Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t, bool, bool) {
  TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D");
  TORCH_CHECK(is_index(indices),
              "Expected tensor for argument #1 'indices' to have one of the following scalar "
              "types: Long, Int; but got ",
              indices.scalar_type(), " instead (while checking arguments for embedding)");
  at::DimVector sizes(indices.sizes());
  sizes.push_back(weight.size(1));
  return empty(sizes, weight.scalar_type());
}

Tensor dense_backward(const Tensor& grad, const Tensor& indices, int64_t rows, int64_t, bool) {
  TORCH_CHECK(is_index(indices),
              "Expected tensor for argument #2 'indices' to have one of the "
              "following scalar types: Long, Int; but got ",
              indices.scalar_type());
  return empty({rows, grad.size(-1)}, grad.scalar_type());
}

// Whether the sum of a bag is taken by a library that needs no map from entries to bags.
bool sums_fast(const Tensor& weight, const Optional& scale, int64_t padding) {
  const bool dtype = weight.scalar_type() == at::kFloat || weight.scalar_type() == at::kHalf ||
                     weight.scalar_type() == at::kBFloat16;
  return dtype && weight.stride(1) == 1 && padding < 0 &&
         (!defined(scale) || scale->stride(0) == 1);
}

void check_bags(const Tensor& weight, const Tensor& indices, const Tensor& offsets, int64_t mode,
                const Optional& scale, bool include_last) {
  TORCH_CHECK(is_index(indices), "expected indices to be long or int, got ", indices.scalar_type());
  TORCH_CHECK(is_index(offsets), "expected offsets to be long or int, got ", offsets.scalar_type());
  TORCH_CHECK(at::isFloatingType(weight.scalar_type()),
              "expected weight to be floating point type, got ", weight.scalar_type());
  TORCH_CHECK(!include_last || offsets.size(0) >= 1,
              "include_last_offset: number of offset should be at least 1");
  if (!defined(scale)) return;
  TORCH_CHECK(mode == kSum, "embedding_bag: per_sample_weights only supported with mode='sum'");
  TORCH_CHECK(scale->dim() == 1 && scale->numel() == indices.numel(),
              "expected per_sample_weights to be 1D with as many elements as indices");
}

template <bool forward_only>
Bags embedding_bag(const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool,
                   int64_t mode, bool, const Optional& scale, bool include_last, int64_t padding) {
  check_bags(weight, indices, offsets, mode, scale, include_last);
  const ScalarType dtype = indices.scalar_type() == at::kLong || offsets.scalar_type() == at::kLong
                               ? at::kLong
                               : at::kInt;
  const int64_t bags = offsets.size(0) - include_last;
  const bool mapped = mode != kSum || !sums_fast(weight, scale, padding);
  const int64_t sizes = forward_only && mode == kSum ? offsets.size(0) : bags;
  const Tensor output = empty({bags, weight.size(1)}, weight.scalar_type());
  Tensor offset2bag = empty({mapped ? indices.size(0) + 1 : 0}, dtype);
  if (mapped) offset2bag = view(offset2bag, {indices.size(0)}, {1});  // one more while it is made
  const Tensor bag_size = view(empty({offsets.size(0)}, dtype), {sizes}, {1});
  const Tensor max_indices =
      mode == kMax ? empty({bags, weight.size(1)}, dtype) : empty({sizes}, dtype);
  return {output, offset2bag, bag_size, max_indices};
}

Tensor bag_dense_backward(const Tensor& grad, const Tensor&, const Tensor&, const Tensor&,
                          const Tensor&, int64_t rows, bool, int64_t, const Optional&, int64_t) {
  return empty({rows, grad.size(1)}, grad.scalar_type());
}
Tensor bag_backward(const Tensor& grad, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                    const Tensor&, int64_t rows, bool, int64_t, bool sparse, const Optional&,
                    int64_t) {
  TORCH_CHECK_NOT_IMPLEMENTED(!sparse, "a sparse gradient cannot be inferred");
  return empty({rows, grad.size(1)}, grad.scalar_type());
}
Tensor bag_weights_backward(const Tensor& grad, const Tensor&, const Tensor& indices, const Tensor&,
                            const Tensor&, int64_t, int64_t) {
  return empty({indices.size(0)}, grad.scalar_type());
}

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "embedding",
     .doc = "rows of a table",
     .element = {&rules::embedded},
     .meta = rule<&embedding>},
    {.op = "embedding_dense_backward",
     .doc = "the gradient of embedding",
     .meta = rule<&dense_backward>},
    {.op = "_embedding_bag",
     .doc = "sums, means or maxima of bags of rows",
     .meta = rule<&embedding_bag<false>>},
    {.op = "_embedding_bag_forward_only",
     .doc = "_embedding_bag without a gradient",
     .meta = rule<&embedding_bag<true>>},
    {.op = "_embedding_bag_backward",
     .doc = "the gradient of _embedding_bag",
     .meta = rule<&bag_backward>},
    {.op = "_embedding_bag_dense_backward",
     .doc = "the dense gradient of _embedding_bag",
     .meta = rule<&bag_dense_backward>},
    {.op = "_embedding_bag_per_sample_weights_backward",
     .doc = "the gradient of _embedding_bag with respect to the weights of its sums",
     .meta = rule<&bag_weights_backward>},
}));

}  // namespace

constinit const std::span<const OpRecord> embeddings = records;

}  // namespace fulgurite::catalogue_families
