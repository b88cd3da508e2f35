// Reductions, sorting and searching.
#include <ATen/MetaFunctions.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>

#include "ops/catalogue/families.h"
#include "ops/meta/tensors.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;
using at::Scalar;
using Dtype = std::optional<ScalarType>;
using Dims = at::OptionalIntArrayRef;
using Pair = std::tuple<Tensor, Tensor>;

Tensor reduced(const Tensor& self, IntArrayRef dims, bool keepdim, ScalarType dtype) {
  return empty(at::meta::get_reduction_shape(self, dims, keepdim), dtype);
}

// Of all elements.

Tensor sum(const Tensor& self, Dtype dtype) {
  return at::meta::sum(self, IntArrayRef(), false, dtype);
}
Tensor mean(const Tensor& self, Dtype dtype) {
  return at::meta::mean(self, IntArrayRef(), false, dtype);
}
Tensor prod(const Tensor& self, Dtype dtype) {
  return empty({}, at::native::get_dtype_from_self(self, dtype, true));
}
Tensor extremum(const Tensor& self) {
  TORCH_CHECK(self.numel() > 0,
              "Expected reduction dim to be specified for input.numel() == 0. Specify the "
              "reduction dim with the 'dim' argument.");
  return empty({}, self.scalar_type());
}
Tensor median(const Tensor& self) { return empty({}, self.scalar_type()); }
Tensor trace(const Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix");
  return empty({}, at::native::get_dtype_from_self(self, {}, true));
}
Tensor dist(const Tensor& self, const Tensor& other, const Scalar&) {
  return empty({}, self.scalar_type());
}
Tensor histc(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  TORCH_CHECK(bins > 0, "bins must be > 0");
  TORCH_CHECK(max.toDouble() >= min.toDouble(), "max must be larger than min");
  return empty({bins}, self.scalar_type());
}

// Of some dimensions.

Tensor nansum(const Tensor& self, Dims dims, bool keepdim, Dtype dtype) {
  TORCH_CHECK(!self.is_complex(), "nansum on CPU does not support complex inputs");
  return reduced(self, dims.value_or(IntArrayRef()), keepdim,
                 at::native::get_dtype_from_self(self, dtype, true));
}
Tensor variance(const Tensor& self, Dims dims, const std::optional<Scalar>&, bool keepdim) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()) || self.is_complex(),
              "std and var only support floating point and complex dtypes");
  return reduced(self, dims.value_or(IntArrayRef()), keepdim,
                 c10::toRealValueType(self.scalar_type()));
}
Pair variance_mean(const Tensor& self, Dims dims, const std::optional<Scalar>& correction,
                   bool keepdim) {
  return {variance(self, dims, correction, keepdim),
          reduced(self, dims.value_or(IntArrayRef()), keepdim, self.scalar_type())};
}
Tensor count_nonzero(const Tensor& self, IntArrayRef dims) {
  return reduced(self, dims, false, at::kLong);
}
Tensor logsumexp(const Tensor& self, IntArrayRef dims, bool keepdim) {
  const bool integral = at::isIntegralType(self.scalar_type(), true);
  return reduced(self, dims, keepdim,
                 integral ? c10::get_default_dtype_as_scalartype() : self.scalar_type());
}

// A value and its index along one dimension.
Pair chosen(const Tensor& self, int64_t dim, bool keepdim, const char* name) {
  dim = c10::maybe_wrap_dim(dim, self.dim());
  at::native::zero_numel_check_dims(self, dim, name);
  return {reduced(self, dim, keepdim, self.scalar_type()), reduced(self, dim, keepdim, at::kLong)};
}
Pair median_dim(const Tensor& self, int64_t dim, bool keepdim) {
  return chosen(self, dim, keepdim, "median()");
}
Pair mode(const Tensor& self, int64_t dim, bool keepdim) {
  return chosen(self, dim, keepdim, "mode()");
}
Pair kthvalue(const Tensor& self, int64_t k, int64_t dim, bool keepdim) {
  dim = c10::maybe_wrap_dim(dim, self.dim());
  const int64_t n = self.dim() > 0 ? self.size(dim) : 1;
  TORCH_CHECK(k >= 1 && k <= n, "kthvalue(): selected number k out of range for dimension ", dim);
  return chosen(self, dim, keepdim, "kthvalue()");
}

// Along a dimension, of the same size.

Pair cumulative(const Tensor& self, int64_t dim) {
  c10::maybe_wrap_dim(dim, self.dim());
  return {contiguous_like(self), empty(self.sizes(), at::kLong)};
}
Tensor logcumsumexp(const Tensor& self, int64_t dim) {
  c10::maybe_wrap_dim(dim, self.dim());
  return contiguous_like(self);
}
Pair sort(const Tensor& self, int64_t dim, bool descending) {
  return at::meta::sort(self, false, dim, descending);
}

// Searching.

Tensor search(const Tensor& sorted, const Tensor& self, bool int32, bool right,
              std::optional<c10::string_view> side, const std::optional<Tensor>& sorter) {
  TORCH_CHECK(!side || *side == "left" || *side == "right",
              "torch.searchsorted(): side can only be 'left' or 'right' but got ", *side);
  TORCH_CHECK(!(right && side == "left"),
              "torch.searchsorted(): side and right can't be set to opposites");
  TORCH_CHECK(sorted.dim() != 0,
              "torch.searchsorted(): boundaries tensor should have positive dimension");
  TORCH_CHECK(sorted.dim() == 1 ||
                  (self.dim() == sorted.dim() && self.sizes().slice(0, self.dim() - 1) ==
                                                     sorted.sizes().slice(0, sorted.dim() - 1)),
              "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
              "dimensions of boundaries tensor and input value tensor must match");
  TORCH_CHECK(sorted.scalar_type() == self.scalar_type(),
              "torch.searchsorted(): boundary tensor and input value tensor should have same "
              "dtype");
  if (defined(sorter)) {
    TORCH_CHECK(sorter->sizes() == sorted.sizes(),
                "torch.searchsorted(): boundary and sorter must have the same size");
    TORCH_CHECK(sorter->scalar_type() == at::kLong,
                "torch.searchsorted(): sorter must be a tensor of long dtype");
  }
  return empty(self.sizes(), int32 ? at::kInt : at::kLong);
}
Tensor searchsorted_number(const Tensor& sorted, const Scalar&, bool int32, bool,
                           std::optional<c10::string_view>, const std::optional<Tensor>&) {
  TORCH_CHECK(sorted.dim() == 1,
              "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
              "dimension is 1");
  return empty({}, int32 ? at::kInt : at::kLong);
}
Tensor bucketize(const Tensor& self, const Tensor& boundaries, bool int32, bool right) {
  TORCH_CHECK(boundaries.dim() == 1, "bucketize(): boundaries tensor must be 1 dimension");
  return search(boundaries, self, int32, right, {}, {});
}
Tensor bucketize_number(const Scalar&, const Tensor& boundaries, bool int32, bool) {
  TORCH_CHECK(boundaries.dim() == 1, "bucketize(): boundaries tensor must be 1 dimension");
  return empty({}, int32 ? at::kInt : at::kLong);
}

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "sum", .doc = "the sum of all elements", .meta = rule<&sum>},
    {.op = "mean", .doc = "the mean of all elements", .meta = rule<&mean>},
    {.op = "prod", .doc = "the product of all elements", .meta = rule<&prod>},
    {.op = "max", .doc = "the largest element", .meta = rule<&extremum>},
    {.op = "min", .doc = "the smallest element", .meta = rule<&extremum>},
    {.op = "median", .doc = "the lower median of all elements", .meta = rule<&median>},
    {.op = "nanmedian", .doc = "median without NaN", .meta = rule<&median>},
    {.op = "cov", .doc = "covariances", .checks_data = true},
    {.op = "corrcoef", .doc = "correlations", .checks_data = true},
    {.op = "histogramdd", .doc = "counts of points per bin", .checks_data = true},
    {.op = "histogramdd.int_bins", .doc = "counts of points per bin", .checks_data = true},
    {.op = "histogramdd.TensorList_bins", .doc = "counts of points per bin", .checks_data = true},
    {.op = "trace", .doc = "the sum of the diagonal", .meta = rule<&trace>},
    {.op = "dist", .doc = "the norm of a difference", .meta = rule<&dist>},
    {.op = "histc", .doc = "counts of elements per bin", .meta = rule<&histc>},
    {.op = "nansum", .doc = "sums without NaN", .meta = rule<&nansum>},
    {.op = "var.correction", .doc = "variances", .meta = rule<&variance>},
    {.op = "std.correction", .doc = "standard deviations", .meta = rule<&variance>},
    {.op = "var_mean.correction", .doc = "variances and means", .meta = rule<&variance_mean>},
    {.op = "std_mean.correction",
     .doc = "standard deviations and means",
     .meta = rule<&variance_mean>},
    {.op = "count_nonzero.dim_IntList",
     .doc = "counts of elements that are not 0",
     .meta = rule<&count_nonzero>},
    {.op = "logsumexp", .doc = "log(sum(exp(x)))", .meta = rule<&logsumexp>},
    {.op = "median.dim", .doc = "lower medians and where they are", .meta = rule<&median_dim>},
    {.op = "nanmedian.dim", .doc = "median.dim without NaN", .meta = rule<&median_dim>},
    {.op = "mode", .doc = "the commonest values and where they are", .meta = rule<&mode>},
    {.op = "kthvalue", .doc = "the kth smallest and where they are", .meta = rule<&kthvalue>},
    {.op = "cummax", .doc = "running maxima and where they are", .meta = rule<&cumulative>},
    {.op = "cummin", .doc = "running minima and where they are", .meta = rule<&cumulative>},
    {.op = "logcumsumexp", .doc = "running log(sum(exp(x)))", .meta = rule<&logcumsumexp>},
    {.op = "sort", .doc = "sorted, and where the elements were", .meta = rule<&sort>},
    {.op = "searchsorted.Tensor",
     .doc = "where elements belong in sorted ones",
     .meta = rule<&search>},
    {.op = "searchsorted.Scalar",
     .doc = "where a number belongs in sorted ones",
     .meta = rule<&searchsorted_number>},
    {.op = "bucketize.Tensor", .doc = "which bucket elements fall in", .meta = rule<&bucketize>},
    {.op = "bucketize.Scalar",
     .doc = "which bucket a number falls in",
     .meta = rule<&bucketize_number>},
}));

}  // namespace

constinit const std::span<const OpRecord> reductions = records;

}  // namespace fulgurite::catalogue_families
