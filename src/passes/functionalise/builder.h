// A trace under construction, call by call.
#pragma once

#include "ir/trace.h"

namespace fulgurite {

struct Builder {
  Trace trace;  // `calls` is the block being written: of the trace, or of a body

  // Of the calls that are added.
  GradMode mode = GradMode::NoGrad;
  int32_t source = -1, module = -1;
};

// Adds a call and gives it mode, source and module.
Call& add_call(Builder& builder, Call call);

// Adds a call of `op` whose one result is known to have this type. A type without a storage gets a
// new one.
ValueId add_call(Builder& builder, const c10::OperatorHandle& op, std::vector<Arg> args,
                 TensorType type);

// Adds a call of `op` with results inferred.
Call& add_inferred(Builder& builder, const c10::OperatorHandle& op, std::vector<Arg> args);
ValueId add_inferred1(Builder& builder, const c10::OperatorHandle& op, std::vector<Arg> args);

// The type of a fresh tensor: no gaps from offset 0 on, no conjugate bit.
TensorType contiguous_like(const TensorType& type);
TensorType dense_like(const TensorType& type);  // with these strides, which have no gaps

Arg int_list(const Dims& dims);
Arg number(int64_t value);

}  // namespace fulgurite
