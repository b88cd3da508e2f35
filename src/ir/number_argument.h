// Arguments of a call that are numbers which the program computes: a 0-dim float64 value of the
// trace where the schema has a Scalar.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>

namespace fulgurite {

inline constexpr const char* kItem = "fulgurite::item";
inline constexpr const char* kNumber = "fulgurite::number";

// Scalar or Scalar?.
inline bool takes_number(const c10::Argument& argument) {
  const c10::Type* type = argument.type().get();
  if (const auto* optional = type->castRaw<c10::OptionalType>())
    type = optional->getElementType().get();
  return type->kind() == c10::TypeKind::NumberType;
}

// Scalar[].
inline bool takes_numbers(const c10::Argument& argument) {
  const auto* list = argument.type()->castRaw<c10::ListType>();
  return list && list->getElementType()->kind() == c10::TypeKind::NumberType;
}

// The two operators whose result is such a number; see capture/number.h.
inline bool is_item(const c10::OperatorHandle& op) { return op.schema().name() == kItem; }
inline bool is_arithmetic(const c10::OperatorHandle& op) { return op.schema().name() == kNumber; }

}  // namespace fulgurite
