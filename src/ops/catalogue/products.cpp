// Products of vectors and matrices.
#include <ATen/ExpandUtils.h>

#include "ops/catalogue/families.h"
#include "ops/meta/iterator.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;
using Optional = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;

// The kernels compute with conjugates undone, and may leave one on the result.
Tensor conjugated(Tensor tensor, bool conj) {
  if (conj) tensor._set_conj(true);
  return tensor;
}
Tensor product(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(),
              "D and ", other.dim(), "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(),
              "dot : expected both vectors to have same dtype, but found ", self.scalar_type(),
              " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor ",
              self.sizes(), " and src ", other.sizes(),
              " to have the same number of elements, "
              "but got ",
              self.numel(), " and ", other.numel(), " elements respectively");
  return empty({}, self.scalar_type());
}
Tensor dot(const Tensor& self, const Tensor& other) {
  return conjugated(product(self, other), self.is_conj() && other.is_conj());
}
Tensor vdot(const Tensor& self, const Tensor& other) {
  return conjugated(product(self, other), !self.is_conj() && other.is_conj());
}
Tensor mv(const Tensor& self, const Tensor& vec) {
  TORCH_CHECK(self.dim() == 2 && vec.dim() == 1, "vector + matrix @ vector expected, got 1, ",
              self.dim(), ", ", vec.dim());
  TORCH_CHECK(self.size(1) == vec.size(0), "size mismatch, got input (", self.size(0), "), mat (",
              self.sizes(), "), vec (", vec.size(0), ")");
  TORCH_CHECK(self.scalar_type() == vec.scalar_type(),
              "expected mat and vec to have the same "
              "dtype, but got ",
              self.scalar_type(), " and ", vec.scalar_type());
  return empty({self.size(0)}, self.scalar_type());
}
Tensor addbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const at::Scalar&,
              const at::Scalar&) {
  TORCH_CHECK(batch1.dim() == 3, "batch1 must be a 3D tensor");
  TORCH_CHECK(batch2.dim() == 3, "batch2 must be a 3D tensor");
  TORCH_CHECK(batch1.size(0) == batch2.size(0) && batch1.size(2) == batch2.size(1),
              "batch1 and batch2 do not fit: ", batch1.sizes(), ", ", batch2.sizes());
  const std::array sizes{batch1.size(1), batch2.size(2)};
  TORCH_CHECK(at::is_expandable_to(self.sizes(), sizes), "The expanded size of the tensor ",
              self.sizes(), " must match ", IntArrayRef(sizes));
  return empty(sizes, self.scalar_type());
}
Tensor int_mm(const Tensor& self, const Tensor& mat2) {
  TORCH_CHECK(self.dim() == 2 && mat2.dim() == 2 && self.size(1) == mat2.size(0),
              "mat1 and mat2 shapes cannot be multiplied");
  TORCH_CHECK(self.scalar_type() == at::kChar || self.scalar_type() == at::kByte,
              "self must be uint8 or int8, got ", self.scalar_type());
  TORCH_CHECK(mat2.scalar_type() == at::kChar, "mat2 must be int8, got ", mat2.scalar_type());
  return empty({self.size(0), mat2.size(1)}, at::kInt);
}
Tensor grouped_mm(const Tensor& a, const Tensor& b, const Optional& offsets, const Optional& bias,
                  std::optional<ScalarType> dtype) {
  const bool flat_a = a.dim() == 2, flat_b = b.dim() == 2;
  TORCH_CHECK((flat_a || a.dim() == 3) && (flat_b || b.dim() == 3), "mat_a has to be 2 or 3d");
  TORCH_CHECK((flat_a && flat_b) || a.size(-1) == b.size(-2),
              "contraction dimension of mat_a and mat_b must match");
  TORCH_CHECK(defined(offsets) == (flat_a || flat_b),
              "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are "
              "3d");
  at::DimVector sizes;
  if (flat_a && flat_b)
    sizes = {offsets->size(0), a.size(0), b.size(1)};
  else if (flat_a || flat_b)
    sizes = {a.size(-2), b.size(-1)};
  else
    sizes = {a.size(0), a.size(1), b.size(-1)};
  const ScalarType type = dtype.value_or(a.scalar_type());
  // Rows start at multiples of 16 bytes.
  const int64_t aligned = 16 / static_cast<int64_t>(c10::elementSize(type));
  const int64_t row = (sizes.back() + aligned - 1) / aligned * aligned;
  if (sizes.size() == 2) return strided(sizes, {row, 1}, type);
  return strided(sizes, {sizes[1] * row, row, 1}, type);
}

// A product of scaled matrices of 8-bit floats.
Tensor scaled_mm(const Tensor& self, const Tensor& mat2, const Tensor&, const Tensor&,
                 const Optional& bias, const Optional&, std::optional<ScalarType> dtype, bool) {
  TORCH_CHECK(self.dim() == 2, "mat1 must be a matrix");
  TORCH_CHECK(mat2.dim() == 2, "mat2 must be a matrix");
  TORCH_CHECK(self.size(1) == mat2.size(0), "mat1 and mat2 shapes cannot be multiplied (",
              self.size(0), "x", self.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  TORCH_CHECK(!defined(bias) || bias->numel() == mat2.size(1), "Bias must be size ", mat2.size(1),
              " but got ", bias->numel());
  TORCH_CHECK(at::isFloat8Type(self.scalar_type()), "Expected mat1 to be Float8 matrix got ",
              self.scalar_type());
  TORCH_CHECK(at::isFloat8Type(mat2.scalar_type()), "Expected mat2 to be Float8 matrix got ",
              mat2.scalar_type());
  return empty({self.size(0), mat2.size(1)}, dtype.value_or(self.scalar_type()));
}

// x + a b^T: elementwise over a column and a row.
Tensor addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const at::Scalar& beta,
            const at::Scalar& alpha) {
  TORCH_CHECK(vec1.dim() == 1, "addr: Expected 1-D argument vec1, but got ", vec1.dim(), "-D");
  TORCH_CHECK(vec2.dim() == 1, "addr: Expected 1-D argument vec2, but got ", vec2.dim(), "-D");
  const std::array sizes{vec1.size(0), vec2.size(0)};
  const auto expanded = at::inferExpandGeometry_dimvector(self.sizes(), self.strides(), sizes);
  const Tensor matrix = view(self, expanded.sizes, expanded.strides);
  const Tensor column = view(vec1, {sizes[0], 1}, {vec1.stride(0), 1});
  Tensor undefined;
  const Iterator iterator(at::TensorIteratorConfig()
                              .add_output(undefined)
                              .add_const_input(matrix)
                              .add_const_input(column)
                              .add_const_input(vec2)
                              .allow_cpu_scalars(true)
                              .promote_inputs_to_common_dtype(true)
                              .cast_common_dtype_to_outputs(true));
  for (const at::Scalar& scale : {beta, alpha}) {
    const ScalarType dtype = iterator.result().scalar_type();
    TORCH_CHECK(!scale.isBoolean() || dtype == at::kBool,
                "Boolean beta and alpha only supported for Boolean results.");
    TORCH_CHECK(at::isFloatingType(dtype) || at::isComplexType(dtype) || scale.isIntegral(true),
                "For integral input tensors, beta and alpha must not be floating point numbers.");
  }
  return iterator.result();
}

// Of the transformers library: rows of the input, sorted by expert, times the expert's matrix.
Tensor expert_mm(const Tensor& input, const Tensor& weight, const Tensor& offsets) {
  TORCH_CHECK(input.dim() == 2 && weight.dim() == 3 && offsets.dim() == 1 &&
                  input.size(1) == weight.size(1) && offsets.size(0) == weight.size(0),
              "input, weight and offs do not fit: ", input.sizes(), ", ", weight.sizes(), ", ",
              offsets.sizes());
  return empty({input.size(0), weight.size(2)}, input.scalar_type());
}
Pair expert_mm_backward(const Tensor& input, const Tensor& weight, const Tensor&, const Tensor&) {
  return {like(input), like(weight)};
}

// In f32 of narrow floats, whose products it holds exactly.
Scalar sum_of_products(const RowRuleCall& row, size_t matrix, size_t vector) {
  if (!c10::isFloatingType(row.nominal)) throw Unsupported("products of integers");
  const auto factor = [&](size_t i) {
    return convert(row.args[i].value, computed_in(row.nominal));
  };
  return row.sum(factor(matrix) * factor(vector));
}

// beta * x + alpha * product; of x nothing is read where beta is 0, not even a NaN.
Scalar added_product(const RowRuleCall& row, Scalar product) {
  const auto number = [&](size_t i) {
    if (!row.args[i].constant) throw Unsupported("a scale that the program computes");
    return row.constant(i).toScalar().toDouble();
  };
  const double beta = number(3), alpha = number(4);
  if (alpha != 1) product = product * alpha;
  if (beta == 0) return product;
  const Scalar x = convert(row.args[0].value, computed_in(row.nominal));
  return (beta == 1 ? x : x * beta) + product;
}

constexpr RowRule product_rule(int32_t matrix, int32_t vector, Results (*run)(const RowRuleCall&)) {
  RowRule rule{run, Reduces::Factor};
  rule.over = matrix;
  rule.vector = vector;
  return rule;
}
template <size_t matrix, size_t vector>
constexpr RowRule plain = product_rule(matrix, vector, [](const RowRuleCall& row) {
  return rule_detail::results_of(sum_of_products(row, matrix, vector));
});
template <size_t matrix, size_t vector>
constexpr RowRule added = product_rule(matrix, vector, [](const RowRuleCall& row) {
  return rule_detail::results_of(added_product(row, sum_of_products(row, matrix, vector)));
});

// Nanoseconds of an element of the matrix, which MKL reads by far fewer bytes at a time than there
// is room for.
constexpr float kAtenEach = 0.15;

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "dot", .doc = "sum(x * y)", .meta = rule<&dot>},
    {.op = "vdot", .doc = "sum(conj(x) * y)", .meta = rule<&vdot>},
    {.op = "mv",
     .doc = "matrix by vector",
     .row = plain<0, 1>,
     .meta = rule<&mv>,
     .aten_each = kAtenEach},
    {.op = "linear",
     .doc = "rows by the rows of a weight",
     .product = {.input = 0, .weight = 1, .bias = 2, .by_rows = true}},
    {.op = "mm",
     .doc = "matrix by matrix",
     .row = plain<1, 0>,
     .product = {.input = 0, .weight = 1},
     .aten_each = kAtenEach},
    {.op = "addmm",
     .doc = "x plus matrix by matrix",
     .row = added<2, 1>,
     .product = {.input = 1, .weight = 2, .bias = 0, .scales = {3, 4}},
     .aten_each = kAtenEach},
    {.op = "addmv", .doc = "x plus matrix by vector", .row = added<1, 2>, .aten_each = kAtenEach},
    {.op = "bmm", .doc = "matrices by matrices", .row = plain<1, 0>, .aten_each = kAtenEach},
    {.op = "addbmm", .doc = "x plus the sum of products of matrices", .meta = rule<&addbmm>},
    {.op = "_int_mm", .doc = "product of matrices of bytes", .meta = rule<&int_mm>},
    {.op = "_grouped_mm",
     .doc = "products of matrices of several sizes",
     .meta = rule<&grouped_mm>},
    {.op = "_scaled_mm",
     .doc = "product of scaled matrices of 8-bit floats",
     .meta = rule<&scaled_mm>},
    {.op = "addr", .doc = "x + a b^T", .meta = rule<&addr>},
    {.op = "transformers::grouped_mm_fallback",
     .doc = "rows times the matrix of their expert",
     .meta = rule<&expert_mm>},
    {.op = "transformers::grouped_mm_fallback_backward",
     .doc = "the gradients of grouped_mm_fallback",
     .meta = rule<&expert_mm_backward>},
}));

}  // namespace

constinit const std::span<const OpRecord> products = records;

}  // namespace fulgurite::catalogue_families
