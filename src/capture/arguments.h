// Between the dispatcher's values and the trace's arguments.
#pragma once

#include <ATen/core/ivalue.h>

#include "capture/number.h"
#include "ir/trace.h"
#include "torch/keys.h"

namespace fulgurite {

// A Python or C++ number made a tensor for the sake of a signature such as add.Tensor: recorded as
// the number it is.
inline bool is_number(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
         !tensor.key_set().has(kMark);
}

// A list that may hold tensors.
inline bool is_tensor_sequence(const c10::IValue& value) {
  return value.isTensorList() || (value.isList() && !value.isIntList() && !value.isDoubleList() &&
                                  !value.isBoolList() && !value.isSymIntList());
}

// Calls f(tensor) for every defined tensor of `value`.
template <class F>
void for_each_tensor(const c10::IValue& value, F&& f) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) f(value.toTensor());
  } else if (is_tensor_sequence(value)) {
    for (const c10::IValue& element : value.toListRef())
      if (element.isTensor() && element.toTensor().defined()) f(element.toTensor());
  }
}

template <class F>
void for_each_tensor(c10::ArrayRef<c10::IValue> values, F&& f) {
  for (const c10::IValue& value : values) for_each_tensor(value, f);
}

// `value` with f(tensor) in place of every defined tensor.
template <class F>
c10::IValue map_tensors(const c10::IValue& value, F&& f) {
  if (value.isTensor())
    return value.toTensor().defined() ? c10::IValue(f(value.toTensor())) : value;
  if (!is_tensor_sequence(value)) return value;
  auto source = value.toListRef();
  c10::impl::GenericList result(value.toList().elementType());
  result.reserve(source.size());
  for (const c10::IValue& element : source) {
    const bool defined = element.isTensor() && element.toTensor().defined();
    result.push_back(defined ? c10::IValue(f(element.toTensor())) : element);
  }
  return result;
}

// The argument of a trace that stands for `value`; number_of(tensor) names a defined tensor that is
// no wrapped number.
template <class F>
Arg to_arg(const c10::IValue& value, F&& number_of) {
  Arg arg;
  if (value.isSymFloat()) return Arg::of(number_behind(value));
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (is_number(tensor)) {
      arg.constant = value;
    } else if (tensor.defined()) {
      arg.kind = Arg::Kind::Value;
      arg.values.push_back(number_of(tensor));
    }
    return arg;
  }
  if (is_tensor_sequence(value)) {
    const auto element = value.toList().elementType();
    const bool optional = element->kind() == c10::TypeKind::OptionalType;
    if (optional || element->kind() == c10::TypeKind::TensorType) {
      arg.kind = Arg::Kind::ValueList;
      arg.optional_elements = optional;
      for (const c10::IValue& item : value.toListRef()) {
        const bool defined = item.isTensor() && item.toTensor().defined();
        arg.values.push_back(defined ? number_of(item.toTensor()) : kNoValue);
      }
      return arg;
    }
    if (is_symbolic(value)) {
      arg.kind = Arg::Kind::ValueList;
      for (const c10::IValue& item : value.toListRef()) arg.values.push_back(number_behind(item));
      return arg;
    }
  }
  arg.constant = value;
  return arg;
}

}  // namespace fulgurite
