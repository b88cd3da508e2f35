// Results of elementwise kernels, by the same TensorIterator that the kernels use.
#pragma once

#include <ATen/TensorIterator.h>

#include "ops/meta/tensors.h"

namespace fulgurite::meta {

// A TensorIterator whose results are meta tensors, made without the dispatcher. The `build_*`
// functions of its base set dtype and broadcasting; an undefined output is allocated.
class Iterator final : public at::TensorIteratorBase {
 public:
  Iterator() = default;
  explicit Iterator(at::TensorIteratorConfig& config) { build(config); }

  // The result at `i`.
  const Tensor& result(int64_t i = 0) const { return results_[i]; }

  void set_output_raw_strided(int64_t i, IntArrayRef sizes, IntArrayRef strides,
                              at::TensorOptions options) override;
  const Tensor& maybe_get_output(int64_t i) override { return results_[i]; }

 private:
  std::array<Tensor, 2> results_;
};

// The usual configurations, with the dtype rules of `at::TensorIterator`.
Tensor unary(const Tensor& self);
Tensor unary_float(const Tensor& self);
Tensor unary(const Tensor& self, ScalarType result);
Tensor binary(const Tensor& a, const Tensor& b);
Tensor comparison(const Tensor& a, const Tensor& b);

// Operands of one dtype, broadcast; for gradients.
Tensor same_dtype(std::initializer_list<std::reference_wrapper<const Tensor>> operands);

// The number as the 0-dim tensor that an operator with a Scalar argument makes of it.
Tensor number(const at::Scalar& value);

// Raises where the number cannot be an element of this type.
void check_fits(const at::Scalar& value, ScalarType dtype);

}  // namespace fulgurite::meta
