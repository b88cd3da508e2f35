#include "ops/meta/iterator.h"

#include <ATen/Dispatch.h>
#include <ATen/ScalarOps.h>

namespace fulgurite::meta {

void Iterator::set_output_raw_strided(int64_t i, IntArrayRef sizes, IntArrayRef strides,
                                      at::TensorOptions options) {
  if (!results_[i].defined()) {
    const ScalarType dtype = c10::typeMetaToScalarType(options.dtype());
    const auto format = options.memory_format_opt().value_or(MemoryFormat::Contiguous);
    results_[i] = strides.empty() ? empty(sizes, dtype, format) : strided(sizes, strides, dtype);
  }
  at::TensorIteratorBase::set_output_raw_strided(i, sizes, strides, options);
}

Tensor unary(const Tensor& self) {
  Iterator iterator;
  iterator.build_borrowing_unary_op(iterator.result(), self);
  return iterator.result();
}

Tensor unary_float(const Tensor& self) {
  Iterator iterator;
  iterator.build_borrowing_unary_float_op(iterator.result(), self);
  return iterator.result();
}

Tensor unary(const Tensor& self, ScalarType result) {
  Tensor undefined;
  Iterator iterator(at::TensorIteratorConfig()
                        .check_all_same_dtype(false)
                        .declare_static_dtype(result)
                        .add_output(undefined)
                        .add_const_input(self));
  return iterator.result();
}

Tensor binary(const Tensor& a, const Tensor& b) {
  Iterator iterator;
  iterator.build_borrowing_binary_op(iterator.result(), a, b);
  return iterator.result();
}

Tensor comparison(const Tensor& a, const Tensor& b) {
  Iterator iterator;
  iterator.build_borrowing_comparison_op(iterator.result(), a, b);
  return iterator.result();
}

Tensor same_dtype(std::initializer_list<std::reference_wrapper<const Tensor>> operands) {
  Tensor undefined;
  at::TensorIteratorConfig config;
  config.add_output(undefined);
  for (const Tensor& operand : operands) config.add_const_input(operand);
  Iterator iterator(config);
  return iterator.result();
}

Tensor number(const at::Scalar& value) {
  Tensor tensor = c10::scalar_to_tensor(value);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

void check_fits(const at::Scalar& value, ScalarType dtype) {
  AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(at::kBool, at::kHalf, at::kBFloat16, dtype, "fill",
                                         [&] { (void)value.to<scalar_t>(); });
}

}  // namespace fulgurite::meta
