// Reductions, sorting and searching.
#include <ATen/MetaFunctions.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/ReduceOpsUtils.h>

#include "ops/catalogue/families.h"
#include "ops/catalogue/row_rules.h"
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
  return empty({}, c10::toRealValueType(self.scalar_type()));
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

// Histograms.

void check_weight(const Tensor& self, const std::optional<Tensor>& weight) {
  if (!defined(weight)) return;
  TORCH_CHECK(self.scalar_type() == weight->scalar_type(),
              "torch.histogramdd: input tensor and weight tensor should have the same dtype");
}
void check_real(const Tensor& self) {
  TORCH_CHECK_NOT_IMPLEMENTED(self.scalar_type() == at::kFloat || self.scalar_type() == at::kDouble,
                              "histogram is not implemented for ", self.scalar_type());
}
Pair histogram_bins(const Tensor& self, const Tensor& bins, const std::optional<Tensor>& weight,
                    bool) {
  check_real(self);
  check_weight(self, weight);
  TORCH_CHECK(self.scalar_type() == bins.scalar_type() && bins.dim() == 1 && bins.numel() > 0,
              "torch.histogramdd: input tensor and bins tensors should have the same dtype, and "
              "bins tensors one dimension and at least one element");
  TORCH_CHECK(!defined(weight) || weight->sizes() == self.sizes(),
              "torch.histogram: if weight tensor is provided it should have the same shape as the "
              "input tensor");
  return {empty({bins.numel() - 1}, self.scalar_type()), empty({bins.numel()}, bins.scalar_type())};
}
Pair histogram(const Tensor& self, int64_t bins, std::optional<at::ArrayRef<double>> range,
               const std::optional<Tensor>& weight, bool) {
  check_real(self);
  check_weight(self, weight);
  TORCH_CHECK(bins > 0, "torch.histogramdd(): bins must be positive");
  TORCH_CHECK(!range || range->size() == 2,
              "torch.histogramdd: for a 1-dimensional histogram "
              "range should have 2 elements");
  return {empty({bins}, self.scalar_type()), empty({bins + 1}, self.scalar_type())};
}
void check_points(const Tensor& self, size_t bins) {
  check_real(self);
  TORCH_CHECK(self.dim() >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions");
  TORCH_CHECK(self.size(-1) == static_cast<int64_t>(bins), "torch.histogramdd: expected ",
              self.size(-1), " sequences of bin edges for a ", self.size(-1),
              "-dimensional histogram but got ", bins);
}
std::vector<Tensor> histogramdd_edges(const Tensor& self, IntArrayRef bins,
                                      std::optional<at::ArrayRef<double>>,
                                      const std::optional<Tensor>& weight, bool) {
  check_points(self, bins.size());
  check_weight(self, weight);
  std::vector<Tensor> edges;
  for (int64_t n : bins) edges.push_back(empty({n + 1}, self.scalar_type()));
  return edges;
}
Tensor histogramdd(const Tensor& self, IntArrayRef bins, std::optional<at::ArrayRef<double>>,
                   const std::optional<Tensor>& weight, bool) {
  check_points(self, bins.size());
  check_weight(self, weight);
  return empty(bins, self.scalar_type());
}
Tensor histogramdd_bins(const Tensor& self, at::TensorList bins,
                        const std::optional<Tensor>& weight, bool) {
  check_points(self, bins.size());
  check_weight(self, weight);
  at::DimVector sizes;
  for (const Tensor& edges : bins) sizes.push_back(edges.numel() - 1);
  return empty(sizes, self.scalar_type());
}

// Segments of one dimension.
Tensor segment_reduce(const Tensor& data, c10::string_view, const std::optional<Tensor>& lengths,
                      const std::optional<Tensor>&, const std::optional<Tensor>& offsets,
                      int64_t axis, bool, const std::optional<Scalar>&) {
  TORCH_CHECK(defined(lengths) || defined(offsets),
              "segment_reduce(): Either lengths or offsets must be defined.");
  const Tensor& segments = defined(offsets) ? *offsets : *lengths;
  axis = c10::maybe_wrap_dim(axis, data.dim());
  TORCH_CHECK(data.dim() >= segments.dim() && axis == segments.dim() - 1,
              "segment_reduce(): Expected axis to be the last dimension of lengths or offsets but "
              "got ",
              axis, ".");
  at::DimVector sizes(data.sizes());
  sizes[axis] = segments.size(axis) - (defined(offsets) ? 1 : 0);
  return empty(sizes, data.scalar_type());
}
Tensor segment_reduce_backward(const Tensor& grad, const Tensor&, const Tensor& data,
                               c10::string_view, const std::optional<Tensor>&,
                               const std::optional<Tensor>&, int64_t,
                               const std::optional<Scalar>&) {
  return empty(data.sizes(), grad.scalar_type());
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

template <auto f>
constexpr auto over_all = fulgurite::reduces(Reduces::All, calls<f>);
template <auto f>
constexpr auto over_dims = fulgurite::reduces(Reduces::Dims, calls<f>);

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "sum",
     .doc = "the sum of all elements",
     .row = over_all<&rules::row_sum>,
     .meta = rule<&sum>},
    {.op = "mean",
     .doc = "the mean of all elements",
     .row = over_all<&rules::row_mean>,
     .meta = rule<&mean>},
    {.op = "prod",
     .doc = "the product of all elements",
     .row = over_all<&rules::row_product>,
     .meta = rule<&prod>},
    {.op = "max",
     .doc = "the largest element",
     .row = over_all<&rules::row_maximum>,
     .meta = rule<&extremum>},
    {.op = "min",
     .doc = "the smallest element",
     .row = over_all<&rules::row_minimum>,
     .meta = rule<&extremum>},
    {.op = "sum.dim_IntList", .doc = "sums", .row = over_dims<&rules::row_sum>},
    {.op = "mean.dim", .doc = "means", .row = over_dims<&rules::row_mean>},
    {.op = "prod.dim_int", .doc = "products", .row = over_dims<&rules::row_product>},
    {.op = "amax", .doc = "the largest elements", .row = over_dims<&rules::row_maximum>},
    {.op = "amin", .doc = "the smallest elements", .row = over_dims<&rules::row_minimum>},
    {.op = "any", .doc = "whether any element is not 0", .row = over_all<&rules::row_any>},
    {.op = "any.dim", .doc = "whether any element is not 0", .row = over_dims<&rules::row_any>},
    {.op = "any.dims", .doc = "whether any element is not 0", .row = over_dims<&rules::row_any>},
    {.op = "all", .doc = "whether no element is 0", .row = over_all<&rules::row_all>},
    {.op = "all.dim", .doc = "whether no element is 0", .row = over_dims<&rules::row_all>},
    {.op = "all.dims", .doc = "whether no element is 0", .row = over_dims<&rules::row_all>},
    {.op = "argmax", .doc = "where the largest is", .row = over_dims<&rules::row_argmax>},
    {.op = "argmin", .doc = "where the smallest is", .row = over_dims<&rules::row_argmin>},
    {.op = "max.dim",
     .doc = "the largest and where they are",
     .row = over_dims<&rules::row_max_and_index>},
    {.op = "min.dim",
     .doc = "the smallest and where they are",
     .row = over_dims<&rules::row_min_and_index>},
    {.op = "cumsum", .doc = "running sums", .row = over_dims<&rules::row_running_sum>},
    {.op = "cumprod", .doc = "running products", .row = over_dims<&rules::row_running_product>},
    {.op = "norm.ScalarOpt_dim", .doc = "norms of vectors", .row = over_dims<&rules::row_norm>},
    {.op = "linalg_vector_norm", .doc = "norms of vectors", .row = over_dims<&rules::row_norm>},
    {.op = "_softmax", .doc = "exp(x) / sum(exp(x))", .row = over_dims<&rules::row_softmax>},
    {.op = "_log_softmax", .doc = "log(softmax(x))", .row = over_dims<&rules::row_log_softmax>},
    {.op = "_softmax_backward_data",
     .doc = "the gradient of softmax, from its result",
     .row = over_dims<&rules::row_softmax_gradient>},
    {.op = "_log_softmax_backward_data",
     .doc = "the gradient of log_softmax, from its result",
     .row = over_dims<&rules::row_log_softmax_gradient>},
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
    {.op = "histogram.bins_tensor",
     .doc = "counts of elements between given edges",
     .meta = rule<&histogram_bins>},
    {.op = "histogram.bin_ct", .doc = "counts per bin, and the edges", .meta = rule<&histogram>},
    {.op = "_histogramdd_bin_edges",
     .doc = "the edges of histogramdd's bins",
     .meta = rule<&histogramdd_edges>},
    {.op = "_histogramdd_from_bin_cts",
     .doc = "counts of points per bin",
     .meta = rule<&histogramdd>},
    {.op = "_histogramdd_from_bin_tensors",
     .doc = "counts of points between given edges",
     .meta = rule<&histogramdd_bins>},
    {.op = "segment_reduce", .doc = "reduces segments", .meta = rule<&segment_reduce>},
    {.op = "_segment_reduce_backward",
     .doc = "the gradient of segment_reduce",
     .meta = rule<&segment_reduce_backward>},
    {.op = "nansum", .doc = "sums without NaN", .meta = rule<&nansum>},
    {.op = "var.correction",
     .doc = "variances",
     .row = over_dims<&rules::row_variance>,
     .meta = rule<&variance>,
     .aten_each = 5},
    {.op = "std.correction",
     .doc = "standard deviations",
     .row = over_dims<&rules::row_deviation>,
     .meta = rule<&variance>,
     .aten_each = 5},
    {.op = "var_mean.correction",
     .doc = "variances and means",
     .row = over_dims<&rules::row_variance_mean>,
     .meta = rule<&variance_mean>,
     .aten_each = 5},
    {.op = "std_mean.correction",
     .doc = "standard deviations and means",
     .row = over_dims<&rules::row_deviation_mean>,
     .meta = rule<&variance_mean>,
     .aten_each = 5},
    {.op = "count_nonzero.dim_IntList",
     .doc = "counts of elements that are not 0",
     .meta = rule<&count_nonzero>},
    {.op = "logsumexp",
     .doc = "log(sum(exp(x)))",
     .row = over_dims<&rules::row_logsumexp>,
     .meta = rule<&logsumexp>},
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
