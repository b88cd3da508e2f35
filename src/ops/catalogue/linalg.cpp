// Solvers, factorisations, distances and Fourier transforms.
#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/LinearAlgebraUtils.h>

#include "base/error.h"
#include "ops/catalogue/families.h"
#include "ops/meta/tensors.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;
using Pair = std::tuple<Tensor, Tensor>;

// A batch of matrices of these sizes, each column-major.
Tensor column_major(IntArrayRef sizes, ScalarType dtype) {
  return strided(sizes, at::native::batched_matrix_contiguous_strides(sizes, true), dtype);
}

// Solvers.

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool, bool left, bool) {
  at::native::checkInputsSolver(a, b, left, "linalg.solve_triangular");
  const auto [b_sizes, a_sizes] = at::native::_linalg_broadcast_batch_dims(b, a);
  return column_major(b_sizes, a.scalar_type());
}
void check_square(const Tensor& self, const char* name) {
  at::native::squareCheckInputs(self, name);
}
Tensor cholesky(const Tensor& self, bool) {
  if (self.numel() == 0) return contiguous_like(self);
  check_square(self, "cholesky");
  return column_major(self.sizes(), self.scalar_type());
}
Tensor cholesky_inverse(const Tensor& self, bool) {
  check_square(self, "cholesky_inverse");
  return column_major(self.sizes(), self.scalar_type());
}
Pair eig(const Tensor& self) {
  check_square(self, "linalg.eig");
  const ScalarType dtype = c10::toComplexType(self.scalar_type());
  return {empty(self.sizes().slice(0, self.dim() - 1), dtype), column_major(self.sizes(), dtype)};
}
Tensor eigvals(const Tensor& self) {
  check_square(self, "linalg.eigvals");
  return empty(self.sizes().slice(0, self.dim() - 1), c10::toComplexType(self.scalar_type()));
}
Tensor householder_product(const Tensor& self, const Tensor& tau) {
  TORCH_CHECK(self.dim() >= 2,
              "torch.linalg.householder_product: input must have at least 2 "
              "dimensions.");
  TORCH_CHECK(self.size(-2) >= self.size(-1),
              "torch.linalg.householder_product: input.shape[-2] "
              "must be greater than or equal to input.shape[-1]");
  TORCH_CHECK(self.size(-1) >= tau.size(-1),
              "torch.linalg.householder_product: input.shape[-1] "
              "must be greater than or equal to tau.shape[-1]");
  TORCH_CHECK(self.dim() - tau.dim() == 1,
              "torch.linalg.householder_product: Expected tau to have "
              "one dimension less than input");
  TORCH_CHECK(self.scalar_type() == tau.scalar_type(),
              "torch.linalg.householder_product: tau dtype "
              "does not match input dtype");
  return column_major(self.sizes(), self.scalar_type());
}
Tensor ormqr(const Tensor& self, const Tensor& tau, const Tensor& other, bool left, bool) {
  TORCH_CHECK(self.dim() >= 2 && other.dim() >= 2,
              "torch.ormqr: input must have at least 2 "
              "dimensions.");
  TORCH_CHECK(self.dim() == other.dim() && self.dim() - tau.dim() == 1,
              "torch.ormqr: Expected other to have as many dimensions as input, and tau one less");
  TORCH_CHECK(tau.size(-1) == std::min(other.size(left ? -2 : -1), self.size(-1)),
              "torch.ormqr: tau.shape[-1] must be equal to the smaller of the sizes that meet");
  return column_major(other.sizes(), self.scalar_type());
}
Pair geqrf(const Tensor& self) {
  TORCH_CHECK(self.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
  at::DimVector tau(self.sizes().slice(0, self.dim() - 2));
  tau.push_back(std::min(self.size(-2), self.size(-1)));
  return {column_major(self.sizes(), self.scalar_type()), empty(tau, self.scalar_type())};
}
Tensor cholesky_solve(const Tensor& self, const Tensor&, bool) {
  return column_major(self.sizes(), self.scalar_type());
}
Tensor matrix_exp(const Tensor& self) {
  check_square(self, "linalg.matrix_exp");
  return contiguous_like(self);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> lstsq(const Tensor& self, const Tensor& b,
                                                 std::optional<double>,
                                                 std::optional<std::string_view> driver) {
  TORCH_CHECK(self.dim() >= 2 && b.dim() >= 1,
              "torch.linalg.lstsq: input must have at least 2 dimensions and other at least 1");
  const int64_t m = self.size(-2), n = self.size(-1), rows = std::max(m, n);
  const bool is_vector = b.dim() == 1 || (b.dim() == self.dim() - 1 &&
                                          b.sizes() == self.sizes().slice(0, self.dim() - 1));
  const std::string_view chosen = driver.value_or("gelsy");
  const bool has_rank = chosen != "gels";
  const bool has_values = chosen == "gelss" || chosen == "gelsd";
  if (has_values && m > n)
    throw Unsupported("the shape of the residuals depends on the rank of the matrix");
  const IntArrayRef batch = self.sizes().slice(0, self.dim() - 2);
  if (batch != b.sizes().slice(0, b.dim() - (is_vector ? 1 : 2)))
    throw Unsupported("least squares of a batch that is broadcast");
  TORCH_CHECK(b.size(is_vector ? -1 : -2) == m,
              "torch.linalg.lstsq: input.size(-2) should match other.size(-2)");
  const int64_t columns = is_vector ? 1 : b.size(-1);
  // The solution lies in the first rows of a column-major copy of b.
  at::DimVector sizes(batch), strides(batch.size());
  int64_t stride = rows * columns;
  for (size_t d = batch.size(); d-- > 0; stride *= std::max<int64_t>(batch[d], 1))
    strides[d] = stride;
  sizes.push_back(n);
  strides.push_back(1);
  if (!is_vector) {
    sizes.push_back(columns);
    strides.push_back(rows);
  }
  const ScalarType real = c10::toRealValueType(self.scalar_type());
  const auto sized = [&](bool present, int64_t last, ScalarType dtype) {
    at::DimVector all(batch);
    if (last >= 0) all.push_back(last);
    return empty(present ? IntArrayRef(all) : IntArrayRef({0}), dtype);
  };
  return {strided(sizes, strides, self.scalar_type()), sized(m > n && !has_rank, columns, real),
          sized(has_rank, -1, at::kLong), sized(has_values, std::min(m, n), real)};
}

// Distances.

Tensor cdist_forward(const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t>) {
  TORCH_CHECK(x1.dim() > 1 && x2.dim() > 1, "cdist only supports at least 2D tensors");
  TORCH_CHECK(x1.size(-1) == x2.size(-1),
              "X1 and X2 must have the same number of columns. X1: ", x1.size(-1),
              " X2: ", x2.size(-1));
  TORCH_CHECK(p >= 0, "cdist only supports non-negative p values");
  auto sizes = at::infer_size(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
  sizes.push_back(x1.size(-2));
  sizes.push_back(x2.size(-2));
  return empty(sizes, x1.scalar_type());
}
Tensor cdist_backward(const Tensor&, const Tensor& x1, const Tensor& x2, double, const Tensor&) {
  auto sizes = at::infer_size(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2));
  sizes.push_back(x1.size(-2));
  sizes.push_back(x1.size(-1));
  return empty(sizes, x1.scalar_type());
}
Tensor pdist_forward(const Tensor& self, double p) {
  const int64_t n = self.size(0);
  return empty({n * (n - 1) / 2}, self.scalar_type());
}
Tensor pdist_backward(const Tensor&, const Tensor& self, double, const Tensor&) {
  return contiguous_like(self);
}

// Fourier transforms. The transformed dimensions become the innermost ones, the others keep the
// order of their strides.

Tensor transformed(const Tensor& self, IntArrayRef sizes, at::DimVector dims, ScalarType dtype,
                   bool sort_last) {
  const auto larger = [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); };
  std::sort(dims.begin(), dims.end() - (sort_last ? 0 : 1), larger);
  at::DimVector order;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  std::sort(order.begin(), order.end(), larger);
  order.append(dims.begin(), dims.end());
  at::DimVector strides(sizes.size());
  int64_t stride = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    strides[*d] = stride;
    stride *= sizes[*d];
  }
  return strided(sizes, strides, dtype);
}
at::DimVector wrapped(IntArrayRef dims, const Tensor& self) {
  at::DimVector result(dims);
  for (int64_t& d : result) d = c10::maybe_wrap_dim(d, self.dim());
  return result;
}
Tensor fft_c2c(const Tensor& self, IntArrayRef dims, int64_t, bool) {
  TORCH_CHECK(self.is_complex(), "expected a complex tensor");
  if (dims.empty()) return like(self);
  return transformed(self, self.sizes(), wrapped(dims, self), self.scalar_type(), true);
}
Tensor fft_r2c(const Tensor& self, IntArrayRef dims, int64_t, bool onesided) {
  TORCH_CHECK(self.is_floating_point(), "expected a real tensor");
  at::DimVector sizes(self.sizes());
  const at::DimVector at = wrapped(dims, self);
  if (onesided) sizes[at.back()] = sizes[at.back()] / 2 + 1;
  return transformed(self, sizes, at, c10::toComplexType(self.scalar_type()), false);
}
Tensor fft_c2r(const Tensor& self, IntArrayRef dims, int64_t normalization, int64_t last) {
  TORCH_CHECK(self.is_complex(), "expected a complex tensor");
  const IntArrayRef others = dims.slice(0, dims.size() - 1);
  const Tensor input = others.empty() ? self : fft_c2c(self, others, normalization, false);
  const int64_t at = c10::maybe_wrap_dim(dims.back(), self.dim());
  at::DimVector sizes(self.sizes());
  sizes[at] = last;
  return transformed(input, sizes, {at}, c10::toRealValueType(self.scalar_type()), false);
}

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "linalg_solve_triangular",
     .doc = "solves triangular systems",
     .meta = rule<&solve_triangular>},
    {.op = "cholesky", .doc = "the Cholesky factor", .meta = rule<&cholesky>},
    {.op = "cholesky_inverse",
     .doc = "the inverse, from the Cholesky factor",
     .meta = rule<&cholesky_inverse>},
    {.op = "_cholesky_solve_helper",
     .doc = "solves systems, from the Cholesky factor",
     .meta = rule<&cholesky_solve>},
    {.op = "geqrf", .doc = "a QR factorisation in LAPACK's form", .meta = rule<&geqrf>},
    {.op = "linalg_eig", .doc = "eigenvalues and eigenvectors", .meta = rule<&eig>},
    {.op = "_linalg_eigvals", .doc = "eigenvalues", .meta = rule<&eigvals>},
    {.op = "linalg_householder_product",
     .doc = "the product of Householder matrices",
     .meta = rule<&householder_product>},
    {.op = "ormqr", .doc = "a product with Q of a QR factorisation", .meta = rule<&ormqr>},
    {.op = "linalg_matrix_exp", .doc = "the matrix exponential", .meta = rule<&matrix_exp>},
    {.op = "linalg_lstsq", .doc = "least squares", .fixed_shape = true, .meta = rule<&lstsq>},
    {.op = "istft", .doc = "the inverse of stft", .checks_data = true},
    {.op = "_cdist_forward", .doc = "distances between rows", .meta = rule<&cdist_forward>},
    {.op = "_cdist_backward",
     .doc = "the gradient of _cdist_forward",
     .meta = rule<&cdist_backward>},
    {.op = "_pdist_forward", .doc = "distances of rows", .meta = rule<&pdist_forward>},
    {.op = "_pdist_backward",
     .doc = "the gradient of _pdist_forward",
     .meta = rule<&pdist_backward>},
    {.op = "_fft_c2c", .doc = "the Fourier transform", .meta = rule<&fft_c2c>},
    {.op = "_fft_r2c", .doc = "the Fourier transform of real numbers", .meta = rule<&fft_r2c>},
    {.op = "_fft_c2r",
     .doc = "the Fourier transform that gives real numbers",
     .meta = rule<&fft_c2r>},
}));

}  // namespace

constinit const std::span<const OpRecord> linear_algebra = records;

}  // namespace fulgurite::catalogue_families
