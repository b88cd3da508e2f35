// Operators that make tensors from nothing, or like another.
#include <ATen/native/RangeUtils.h>
#include <ATen/native/TensorFactories.h>

#include "ops/catalogue/draw_rules.h"
#include "ops/catalogue/element_rules.h"
#include "ops/catalogue/families.h"
#include "ops/catalogue/rules.h"
#include "ops/meta/iterator.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;
using at::Scalar;
using Dtype = std::optional<ScalarType>;
using Layout = std::optional<at::Layout>;
using Device = std::optional<at::Device>;
using Pin = std::optional<bool>;
using Format = std::optional<MemoryFormat>;
using Generator = std::optional<at::Generator>;

ScalarType default_dtype() { return c10::get_default_dtype_as_scalartype(); }

void check_strided(Layout layout) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(at::kStrided) == at::kStrided, "a result of layout ",
                              *layout, " cannot be inferred");
}
Tensor make(IntArrayRef size, ScalarType dtype, Layout layout) {
  check_strided(layout);
  return meta::empty(size, dtype);
}

// zeros, ones, rand, randn: the default dtype unless one is given.
Tensor sized(IntArrayRef size, Dtype dtype, Layout layout, Device, Pin) {
  return make(size, dtype.value_or(default_dtype()), layout);
}
Tensor sized_random(IntArrayRef size, Generator, Dtype dtype, Layout layout, Device, Pin) {
  return make(size, dtype.value_or(default_dtype()), layout);
}
Tensor full(IntArrayRef size, const Scalar& value, Dtype dtype, Layout layout, Device, Pin) {
  ScalarType inferred = default_dtype();
  if (value.isBoolean()) inferred = at::kBool;
  if (value.isIntegral(false)) inferred = at::kLong;
  if (value.isComplex()) inferred = c10::toComplexType(default_dtype());
  check_fits(value, dtype.value_or(inferred));
  return make(size, dtype.value_or(inferred), layout);
}
Tensor randint(int64_t high, IntArrayRef size, Dtype dtype, Layout layout, Device, Pin) {
  TORCH_CHECK(high > 0, "random_ expects 'from' to be less than 'to', but got from=0 >= to=", high);
  return make(size, dtype.value_or(default_dtype()), layout);
}
Tensor randint_low(int64_t low, int64_t high, IntArrayRef size, Dtype dtype, Layout layout, Device,
                   Pin) {
  TORCH_CHECK(low < high, "random_ expects 'from' to be less than 'to', but got from=", low,
              " >= to=", high);
  return make(size, dtype.value_or(default_dtype()), layout);
}
Tensor randperm(int64_t n, Dtype dtype, Layout layout, Device, Pin) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  return make({n}, dtype.value_or(default_dtype()), layout);
}
Tensor normal(double mean, double std, IntArrayRef size, Generator, Dtype dtype, Layout layout,
              Device, Pin) {
  TORCH_CHECK(std >= 0.0, "normal expects std >= 0.0, but found std ", std);
  return make(size, dtype.value_or(default_dtype()), layout);
}
Tensor scalar_tensor(const Scalar& value, Dtype dtype, Layout layout, Device, Pin) {
  check_fits(value, dtype.value_or(default_dtype()));
  return make({}, dtype.value_or(default_dtype()), layout);
}
Tensor eye_m(int64_t n, int64_t m, Dtype dtype, Layout layout, Device, Pin) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  return make({n, m}, dtype.value_or(default_dtype()), layout);
}
Tensor eye(int64_t n, Dtype dtype, Layout layout, Device device, Pin pin) {
  return eye_m(n, n, dtype, layout, device, pin);
}

// Ranges.

Tensor arange_step(const Scalar& start, const Scalar& end, const Scalar& step, Dtype dtype,
                   Layout layout, Device, Pin) {
  const bool integral = start.isIntegral(true) && end.isIntegral(true) && step.isIntegral(true);
  const ScalarType type = dtype.value_or(integral ? at::kLong : default_dtype());
  const int64_t n = type == at::kLong ? at::native::compute_arange_size<int64_t>(start, end, step)
                                      : at::native::compute_arange_size<double>(start, end, step);
  return make({n}, type, layout);
}
Tensor arange_start(const Scalar& start, const Scalar& end, Dtype dtype, Layout layout,
                    Device device, Pin pin) {
  return arange_step(start, end, 1, dtype, layout, device, pin);
}
Tensor arange(const Scalar& end, Dtype dtype, Layout layout, Device device, Pin pin) {
  return arange_step(0, end, 1, dtype, layout, device, pin);
}
Tensor spaced(bool complex, int64_t steps, Dtype dtype, Layout layout) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  const ScalarType inferred = complex ? c10::toComplexType(default_dtype()) : default_dtype();
  TORCH_CHECK(!complex || !dtype || c10::isComplexType(*dtype), "inferred dtype ", inferred,
              " can't be safely cast to passed dtype ", dtype.value_or(inferred));
  return make({steps}, dtype.value_or(inferred), layout);
}
void check_end(const Tensor& end) {
  TORCH_CHECK(end.dim() == 0,
              "only supports 0-dimensional start and end tensors, but got a tensor with ",
              end.dim(), " dimension(s).");
}
Tensor linspace(const Scalar& start, const Scalar& end, int64_t steps, Dtype dtype, Layout layout,
                Device, Pin) {
  return spaced(start.isComplex() || end.isComplex(), steps, dtype, layout);
}
Tensor linspace_tensors(const Tensor& start, const Tensor& end, int64_t steps, Dtype dtype,
                        Layout layout, Device, Pin) {
  check_end(start);
  check_end(end);
  return spaced(start.is_complex() || end.is_complex(), steps, dtype, layout);
}
Tensor linspace_start(const Tensor& start, const Scalar& end, int64_t steps, Dtype dtype,
                      Layout layout, Device, Pin) {
  check_end(start);
  return spaced(start.is_complex() || end.isComplex(), steps, dtype, layout);
}
Tensor linspace_end(const Scalar& start, const Tensor& end, int64_t steps, Dtype dtype,
                    Layout layout, Device, Pin) {
  check_end(end);
  return spaced(start.isComplex() || end.is_complex(), steps, dtype, layout);
}
Tensor logspace(const Scalar& start, const Scalar& end, int64_t steps, double, Dtype dtype,
                Layout layout, Device device, Pin pin) {
  return linspace(start, end, steps, dtype, layout, device, pin);
}
Tensor logspace_tensors(const Tensor& start, const Tensor& end, int64_t steps, double, Dtype dtype,
                        Layout layout, Device device, Pin pin) {
  return linspace_tensors(start, end, steps, dtype, layout, device, pin);
}
Tensor logspace_start(const Tensor& start, const Scalar& end, int64_t steps, double, Dtype dtype,
                      Layout layout, Device device, Pin pin) {
  return linspace_start(start, end, steps, dtype, layout, device, pin);
}
Tensor logspace_end(const Scalar& start, const Tensor& end, int64_t steps, double, Dtype dtype,
                    Layout layout, Device device, Pin pin) {
  return linspace_end(start, end, steps, dtype, layout, device, pin);
}
Tensor tril_indices(int64_t row, int64_t col, int64_t offset, Dtype dtype, Layout layout, Device,
                    Pin) {
  TORCH_CHECK(row >= 0, "row must be non-negative, got", row);
  TORCH_CHECK(col >= 0, "col must be non-negative, got", col);
  return make({2, at::native::get_tril_size(row, col, offset)}, dtype.value_or(at::kLong), layout);
}
Tensor triu_indices(int64_t row, int64_t col, int64_t offset, Dtype dtype, Layout layout, Device,
                    Pin) {
  TORCH_CHECK(row >= 0, "row must be non-negative, got", row);
  TORCH_CHECK(col >= 0, "col must be non-negative, got", col);
  const int64_t n = row * col - at::native::get_tril_size(row, col, offset - 1);
  return make({2, n}, dtype.value_or(at::kLong), layout);
}

// Like another tensor.

Tensor as(const Tensor& self, Dtype dtype, Layout layout, Device, Pin, Format format) {
  check_strided(layout);
  return like(self, dtype.value_or(self.scalar_type()), format.value_or(MemoryFormat::Preserve));
}
Tensor full_like(const Tensor& self, const Scalar& value, Dtype dtype, Layout layout, Device device,
                 Pin pin, Format format) {
  check_fits(value, dtype.value_or(self.scalar_type()));
  return as(self, dtype, layout, device, pin, format);
}
Tensor randint_like(const Tensor& self, int64_t, Dtype dtype, Layout layout, Device device, Pin pin,
                    Format format) {
  return as(self, dtype, layout, device, pin, format);
}
Tensor randint_like_low(const Tensor& self, int64_t, int64_t, Dtype dtype, Layout layout,
                        Device device, Pin pin, Format format) {
  return as(self, dtype, layout, device, pin, format);
}
Tensor fresh(const Tensor& self, IntArrayRef size, Dtype dtype, Layout layout, Device, Pin) {
  return make(size, dtype.value_or(self.scalar_type()), layout);
}
Tensor new_full(const Tensor& self, IntArrayRef size, const Scalar& value, Dtype dtype,
                Layout layout, Device, Pin) {
  check_fits(value, dtype.value_or(self.scalar_type()));
  return make(size, dtype.value_or(self.scalar_type()), layout);
}
Tensor new_empty_strided(const Tensor& self, IntArrayRef size, IntArrayRef stride, Dtype dtype,
                         Layout layout, Device, Pin) {
  check_strided(layout);
  TORCH_CHECK(size.size() == stride.size(), "dimensionality of sizes (", size.size(),
              ") must match dimensionality of strides (", stride.size(), ")");
  return strided(size, stride, dtype.value_or(self.scalar_type()));
}

// Copies.

Tensor clone(const Tensor& self, Format format) {
  return like(self, format.value_or(MemoryFormat::Preserve));
}

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "zeros", .doc = "zeros", .element = {&rules::filled_with<0>}, .meta = rule<&sized>},
    {.op = "ones", .doc = "ones", .element = {&rules::filled_with<1>}, .meta = rule<&sized>},
    {.op = "full",
     .doc = "one number everywhere",
     .element = {&rules::filled<1>},
     .meta = rule<&full>},
    {.op = "rand",
     .doc = "uniform numbers in [0, 1)",
     .draw = {&rules::rand_elements, &rules::rand_of},
     .meta = rule<&sized>},
    {.op = "rand.generator",
     .doc = "rand by a generator",
     .draw = {&rules::rand_elements, &rules::rand_of},
     .meta = rule<&sized_random>},
    {.op = "randn", .doc = "normal numbers", .meta = rule<&sized>},
    {.op = "randn.generator", .doc = "randn by a generator", .meta = rule<&sized_random>},
    {.op = "randint",
     .doc = "integers in [0, high)",
     .draw = rules::integers<true>,
     .meta = rule<&randint>},
    {.op = "randint.low",
     .doc = "integers in [low, high)",
     .draw = rules::integers<false>,
     .meta = rule<&randint_low>},
    {.op = "randperm", .doc = "a permutation of 0 .. n-1", .meta = rule<&randperm>},
    {.op = "normal.float_float", .doc = "normal numbers", .meta = rule<&normal>},
    {.op = "scalar_tensor",
     .doc = "a number as a 0-dim tensor",
     .element = {&rules::filled<0>},
     .meta = rule<&scalar_tensor>},
    {.op = "eye",
     .doc = "the identity matrix",
     .element = {&rules::identity_matrix},
     .meta = rule<&eye>},
    {.op = "eye.m",
     .doc = "ones on the diagonal",
     .element = {&rules::identity_matrix},
     .meta = rule<&eye_m>},
    {.op = "arange",
     .doc = "0, 1, ... below the end",
     .element = {&rules::counted},
     .meta = rule<&arange>},
    {.op = "arange.start",
     .doc = "start, start + 1, ...",
     .element = {&rules::counted_from},
     .meta = rule<&arange_start>},
    {.op = "arange.start_step",
     .doc = "start, start + step, ...",
     .element = {&rules::counted_by},
     .meta = rule<&arange_step>},
    {.op = "linspace", .doc = "evenly spaced numbers", .meta = rule<&linspace>},
    {.op = "linspace.Tensor_Tensor", .doc = "linspace", .meta = rule<&linspace_tensors>},
    {.op = "linspace.Tensor_Scalar", .doc = "linspace", .meta = rule<&linspace_start>},
    {.op = "linspace.Scalar_Tensor", .doc = "linspace", .meta = rule<&linspace_end>},
    {.op = "logspace", .doc = "powers, evenly spaced", .meta = rule<&logspace>},
    {.op = "logspace.Tensor_Tensor", .doc = "logspace", .meta = rule<&logspace_tensors>},
    {.op = "logspace.Tensor_Scalar", .doc = "logspace", .meta = rule<&logspace_start>},
    {.op = "logspace.Scalar_Tensor", .doc = "logspace", .meta = rule<&logspace_end>},
    {.op = "tril_indices", .doc = "where a lower triangle is", .meta = rule<&tril_indices>},
    {.op = "triu_indices", .doc = "where an upper triangle is", .meta = rule<&triu_indices>},

    {.op = "empty_like", .doc = "uninitialised, like x", .meta = rule<&as>},
    {.op = "zeros_like",
     .doc = "zeros like x",
     .pointwise = elementwise([](Nominal n) { return n.number(0); }),
     .meta = rule<&as>},
    {.op = "ones_like",
     .doc = "ones like x",
     .pointwise = elementwise([](Nominal n) { return n.number(1); }),
     .meta = rule<&as>},
    {.op = "full_like",
     .doc = "one number, like x",
     .pointwise = elementwise_rounds([](Plain, fulgurite::Scalar x) { return x; }),
     .meta = rule<&full_like>},
    {.op = "rand_like",
     .doc = "uniform numbers in [0, 1), like x",
     .draw = {&rules::rand_elements, &rules::rand_of},
     .meta = rule<&as>},
    {.op = "randn_like", .doc = "normal numbers, like x", .meta = rule<&as>},
    {.op = "randint_like", .doc = "integers in [0, high), like x", .meta = rule<&randint_like>},
    {.op = "randint_like.low_dtype",
     .doc = "integers in [low, high), like x",
     .meta = rule<&randint_like_low>},
    {.op = "new_empty", .doc = "uninitialised, of x's dtype", .meta = rule<&fresh>},
    {.op = "new_zeros",
     .doc = "zeros of x's dtype",
     .element = {&rules::filled_with<0>},
     .meta = rule<&fresh>},
    {.op = "new_ones",
     .doc = "ones of x's dtype",
     .element = {&rules::filled_with<1>},
     .meta = rule<&fresh>},
    {.op = "new_full",
     .doc = "one number, of x's dtype",
     .element = {&rules::filled<2>},
     .meta = rule<&new_full>},
    {.op = "new_empty_strided",
     .doc = "uninitialised, with these strides",
     .meta = rule<&new_empty_strided>},

    {.op = "clone",
     .doc = "a copy",
     .pointwise = elementwise([](fulgurite::Scalar x) { return x; }),
     .meta = rule<&clone>},
}));

}  // namespace

constinit const std::span<const OpRecord> factories = records;

}  // namespace fulgurite::catalogue_families
