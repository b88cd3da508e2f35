#include "ops/catalogue/made_calls.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "ops/facts.h"

namespace fulgurite::catalogue_families {

namespace {

Dims strides_of(const Dims& sizes) {
  Dims strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;)
    strides[d - 1] = strides[d] * std::max<int64_t>(sizes[d], 1);
  return strides;
}

}  // namespace

ValueId MadeCalls::new_value(c10::ScalarType dtype, const Dims& sizes) {
  TensorType type;
  type.dtype = dtype;
  type.sizes = sizes;
  type.strides = strides_of(sizes);
  type.nbytes = numel(type) * static_cast<int64_t>(c10::elementSize(dtype));
  return add_value(trace_, std::move(type));
}

ValueId MadeCalls::add_view(ValueId of, const Dims& sizes) {
  TensorType type = type_of(trace_, of);
  type.sizes = sizes;
  type.strides = strides_of(sizes);
  const ValueId id = add_value(trace_, std::move(type));
  const std::vector<int64_t> asked(sizes.begin(), sizes.end());
  add(find_op("aten::view", ""), {Arg::of(of), literal(asked)}, {id});
  return id;
}

void MadeCalls::add(const c10::OperatorHandle& op, std::vector<Arg> args,
                    std::vector<ValueId> results) {
  Call& call = calls_.emplace_back();
  call.op = op;
  call.args = std::move(args);
  for (ValueId id : results) call.results.push_back(Arg::of(id));
  call.mode = whole_.mode;
  call.source = whole_.source;
  call.module = whole_.module;
}

ValueId MadeCalls::add(const char* op, const char* overload, std::vector<Arg> args,
                       c10::ScalarType dtype, const Dims& sizes, ValueId as) {
  const ValueId id = as == kNoValue ? new_value(dtype, sizes) : as;
  add(find_op(op, overload), std::move(args), {id});
  return id;
}

Arg number_as_tensor(double value) {
  at::Tensor number = at::scalar_tensor(value, at::kDouble);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return Arg::literal(number);
}

}  // namespace fulgurite::catalogue_families
