#include "passes/functionalise/builder.h"

#include "capture/infer.h"

namespace fulgurite {
namespace {

void stamp(const Builder& builder, Call& call) {
  call.mode = builder.mode;
  call.source = builder.source;
  call.module = builder.module;
}

}  // namespace

Call& add_call(Builder& builder, Call call) {
  stamp(builder, call);
  return builder.trace.calls.emplace_back(std::move(call));
}

ValueId add_call(Builder& builder, const c10::OperatorHandle& op, std::vector<Arg> args,
                 TensorType type) {
  type.requires_grad = false;
  const ValueId id = add_value(builder.trace, std::move(type));
  Call call;
  call.op = op;
  call.args = std::move(args);
  call.results.push_back(Arg::of(id));
  add_call(builder, std::move(call));
  return id;
}

Call& add_inferred(Builder& builder, const c10::OperatorHandle& op, std::vector<Arg> args) {
  Call& call = emit(builder.trace, op, std::move(args));
  stamp(builder, call);
  return call;
}

ValueId add_inferred1(Builder& builder, const c10::OperatorHandle& op, std::vector<Arg> args) {
  return add_inferred(builder, op, std::move(args)).results.at(0).values.at(0);
}

TensorType dense_like(const TensorType& type) {
  TensorType dense = type;
  dense.offset = 0;
  dense.storage = kNoStorage;
  dense.nbytes = numel(type) * static_cast<int64_t>(c10::elementSize(type.dtype));
  dense.conj = dense.neg = dense.requires_grad = false;
  return dense;
}

TensorType contiguous_like(const TensorType& type) {
  TensorType dense = dense_like(type);
  int64_t stride = 1;
  for (size_t i = dense.sizes.size(); i-- > 0;) {
    dense.strides[i] = stride;
    stride *= std::max<int64_t>(dense.sizes[i], 1);
  }
  return dense;
}

Arg int_list(const Dims& dims) {
  return Arg::literal(c10::List<int64_t>(c10::ArrayRef<int64_t>(dims.data(), dims.size())));
}

Arg number(int64_t value) { return Arg::literal(value); }

}  // namespace fulgurite
