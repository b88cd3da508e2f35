// Indexing, and writing into a copy.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/MetaFunctions.h>
#include <ATen/WrapDimUtils.h>

#include "ops/catalogue/element_rules.h"
#include "ops/catalogue/families.h"
#include "ops/catalogue/move_rules.h"
#include "ops/meta/tensors.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;
using at::Scalar;
using Optional = std::optional<Tensor>;
using Indices = c10::List<Optional>;

bool is_index(const Tensor& t) {
  return t.scalar_type() == at::kLong || t.scalar_type() == at::kInt;
}

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(is_index(index), "index_select(): Expected dtype int32 or int64 for index");
  dim = c10::maybe_wrap_dim(dim, self.dim());
  at::DimVector sizes(self.sizes());
  if (!sizes.empty()) sizes[dim] = index.numel();
  return empty(sizes, self.scalar_type());
}

// What the indices select, without their dtypes being checked against masks.
Tensor put(const Tensor& self, const Indices& indices, const Tensor& values, bool) {
  TORCH_CHECK_INDEX(static_cast<int64_t>(indices.size()) <= self.dim(),
                    "too many indices for tensor of dimension ", self.dim(), " (got ",
                    indices.size(), ")");
  TORCH_CHECK_INDEX(self.scalar_type() == values.scalar_type(),
                    "Index put requires the source and destination dtypes match, got ",
                    self.scalar_type(), " for the destination and ", values.scalar_type(),
                    " for the source.");
  return like(self);
}
Tensor& index_put_(Tensor& self, const Indices& indices, const Tensor& values, bool accumulate) {
  put(self, indices, values, accumulate);
  return self;
}

Tensor index_fill_number(const Tensor& self, int64_t dim, const Tensor& index,
                         const Scalar& value) {
  c10::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(is_index(index), "index_fill_(): Expected dtype int32/int64 for index.");
  TORCH_CHECK(self.is_complex() || !value.isComplex(),
              "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  return like(self);
}
Tensor index_fill(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0,
              "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  return index_fill_number(self, dim, index, 0);
}

Tensor take(const Tensor& self, const Tensor& index) {
  TORCH_CHECK(index.scalar_type() == at::kLong,
              "take(): Expected a long tensor for index, but got ", index.scalar_type());
  TORCH_CHECK_INDEX(self.numel() != 0 || index.numel() == 0,
                    "take(): tried to take from an empty tensor");
  return empty(index.sizes(), self.scalar_type());
}

Tensor masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter: expected self and source to have same dtypes but got ",
              self.scalar_type(), " and ", source.scalar_type());
  TORCH_CHECK(mask.scalar_type() == at::kBool,
              "masked_scatter_ only supports boolean masks, but "
              "got mask with dtype ",
              mask.scalar_type());
  return empty(at::infer_size(self.sizes(), mask.sizes()), self.scalar_type());
}

Tensor masked_scatter_backward(const Tensor& grad, const Tensor&, IntArrayRef sizes) {
  return empty(sizes, grad.scalar_type());
}

Tensor nonzero_static(const Tensor& self, int64_t size, int64_t) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  return empty({size, self.dim()}, at::kLong);
}

Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(is_index(repeats), "repeats has to be Long or Int tensor");
  TORCH_CHECK_NOT_IMPLEMENTED(size.has_value(), "the size depends on the data of repeats");
  return empty({*size}, repeats.scalar_type());
}

Tensor narrow_copy(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  TORCH_CHECK(self.dim() > 0, "narrow() cannot be applied to a 0-dim tensor.");
  TORCH_CHECK(length >= 0, "narrow(): length must be non-negative.");
  TORCH_CHECK(dim < self.dim(), "Expected dim < self.dim()");
  dim = c10::maybe_wrap_dim(dim, self.dim());
  const int64_t n = self.size(dim);
  if (start != n) start = c10::maybe_wrap_dim(start, n);
  TORCH_CHECK(start <= n - length, "start (", start, ") + length (", length,
              ") exceeds dimension size (", n, ").");
  if (length == n) return like(self);
  at::DimVector sizes(self.sizes());
  sizes[dim] = length;
  return empty(sizes, self.scalar_type());
}

// Scatters into views: a copy of the whole storage of what is written into.

Tensor clone_preserving_strides(const Tensor& self) {
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes) return like(self);
  const int64_t reach =
      static_cast<int64_t>(self.storage().nbytes()) / static_cast<int64_t>(self.itemsize());
  return view(empty({reach}, self.scalar_type()), self.sizes(), self.strides());
}

void check_source(const Tensor& source, IntArrayRef sizes, const char* what) {
  TORCH_CHECK(source.sizes() == sizes, "expected src to have a size equal to the ", what,
              " of self. src size = ", source.sizes(), ", ", what, " size = ", sizes);
}

Tensor select_scatter(const Tensor& self, const Tensor& source, int64_t dim, int64_t index) {
  dim = c10::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(index >= -self.size(dim) && index < self.size(dim), "select(): index ", index,
                    " out of range for tensor of size ", self.sizes(), " at dimension ", dim);
  at::DimVector sizes(self.sizes());
  sizes.erase(sizes.begin() + dim);
  check_source(source, sizes, "slice");
  return clone_preserving_strides(self);
}

Tensor slice_scatter(const Tensor& self, const Tensor& source, int64_t dim,
                     std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  TORCH_CHECK(self.dim() > 0, "slice() cannot be applied to a 0-dim tensor.");
  TORCH_CHECK(step > 0, "slice step must be positive");
  dim = c10::maybe_wrap_dim(dim, self.dim());
  const int64_t n = self.size(dim);
  const auto wrap = [n](int64_t i) { return std::clamp(i < 0 ? i + n : i, int64_t{0}, n); };
  const int64_t first = wrap(start.value_or(0));
  const int64_t last = std::max(wrap(std::min(end.value_or(n), n)), first);
  at::DimVector sizes(self.sizes());
  sizes[dim] = (last - first + step - 1) / step;
  check_source(source, sizes, "slice");
  return clone_preserving_strides(self);
}

Tensor diagonal_scatter(const Tensor& self, const Tensor& source, int64_t offset, int64_t dim1,
                        int64_t dim2) {
  dim1 = c10::maybe_wrap_dim(dim1, self.dim());
  dim2 = c10::maybe_wrap_dim(dim2, self.dim());
  TORCH_CHECK(dim1 != dim2, "diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  const int64_t rows = self.size(dim1), columns = self.size(dim2);
  const int64_t n =
      offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns);
  at::DimVector sizes(self.sizes());
  sizes.erase(sizes.begin() + std::max(dim1, dim2));
  sizes.erase(sizes.begin() + std::min(dim1, dim2));
  sizes.push_back(std::max(n, int64_t{0}));
  check_source(source, sizes, "diagonal");
  return clone_preserving_strides(self);
}

Tensor diag_embed(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  const int64_t dims = self.dim() + 1;
  dim1 = c10::maybe_wrap_dim(dim1, dims);
  dim2 = c10::maybe_wrap_dim(dim2, dims);
  TORCH_CHECK(dim1 != dim2, "diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  const int64_t n = self.size(-1) + std::abs(offset);
  at::DimVector sizes(self.sizes().slice(0, self.dim() - 1));
  sizes.insert(sizes.begin() + std::min(dim1, dim2), n);
  sizes.insert(sizes.begin() + std::max(dim1, dim2), n);
  return empty(sizes, self.scalar_type());
}

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "index.Tensor",
     .doc = "gathers by index tensors or masks",
     .fixed_shape = true,
     .element = {&rules::indexed}},
    {.op = "index_select",
     .doc = "slices by their numbers",
     .element = {&rules::slices_by_index},
     .meta = rule<&index_select>},
    {.op = "index_put", .doc = "writes where indices say, in a copy", .meta = rule<&put>},
    {.op = "_unsafe_index_put",
     .doc = "index_put with indices known to be in bounds",
     .meta = rule<&put>},
    {.op = "index_put_", .doc = "writes where indices say", .meta = rule<&index_put_>},
    {.op = "index_fill.int_Scalar",
     .doc = "a number in slices, in a copy",
     .meta = rule<&index_fill_number>},
    {.op = "index_fill.int_Tensor",
     .doc = "a 0-dim tensor in slices, in a copy",
     .meta = rule<&index_fill>},
    {.op = "gather", .doc = "elements by index along a dimension", .element = {&rules::gathered}},
    {.op = "one_hot", .doc = "1 at an index, else 0", .element = {&rules::one_of_classes}},
    {.op = "take",
     .doc = "elements by their number",
     .element = {&rules::taken},
     .meta = rule<&take>},
    {.op = "masked_scatter",
     .doc = "the next of the source where the mask holds, else x",
     .meta = rule<&masked_scatter>},
    {.op = "masked_scatter_backward",
     .doc = "the gradient of masked_scatter's source",
     .meta = rule<&masked_scatter_backward>},
    {.op = "nonzero_static",
     .doc = "where the elements that are not 0 are, as many as are asked for",
     .meta = rule<&nonzero_static>},
    {.op = "repeat_interleave.Tensor",
     .doc = "each number as often as it says",
     .meta = rule<&repeat_interleave>},
    {.op = "narrow_copy",
     .doc = "a copy of a range of slices",
     .move = {&rules::narrowed},
     .meta = rule<&narrow_copy>},
    {.op = "select_scatter",
     .doc = "a copy with a slice replaced",
     .element = {&rules::with_index},
     .meta = rule<&select_scatter>},
    {.op = "slice_scatter",
     .doc = "a copy with a range of slices replaced",
     .element = {&rules::with_range},
     .meta = rule<&slice_scatter>},
    {.op = "diagonal_scatter",
     .doc = "a copy with a diagonal replaced",
     .element = {&rules::with_diagonal},
     .meta = rule<&diagonal_scatter>},
    {.op = "diag_embed",
     .doc = "matrices with these diagonals",
     .element = {&rules::diagonal_matrix},
     .meta = rule<&diag_embed>},
}));

}  // namespace

constinit const std::span<const OpRecord> indexing = records;

}  // namespace fulgurite::catalogue_families
