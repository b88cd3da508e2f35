#include "ir/schema_check.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/number_argument.h"

namespace fulgurite {
namespace {

using c10::TypeKind;

const c10::Type& without_optional(const c10::Type& type) {
  const auto* optional = type.castRaw<c10::OptionalType>();
  return optional ? *optional->getElementType() : type;
}

bool is_optional(const c10::Type& type) { return type.kind() == TypeKind::OptionalType; }

bool is_tensor(const c10::Type& type) {
  return without_optional(type).kind() == TypeKind::TensorType;
}

// The elements of a list of tensors; null for any other type.
const c10::Type* tensor_elements(const c10::Type& type) {
  const auto* list = without_optional(type).castRaw<c10::ListType>();
  return list && is_tensor(*list->getElementType()) ? list->getElementType().get() : nullptr;
}

bool fits(const c10::IValue& value, const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::OptionalType:
      return value.isNone() || fits(value, without_optional(type));
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return value.isInt();
    case TypeKind::FloatType:
      return value.isDouble();
    case TypeKind::BoolType:
      return value.isBool();
    case TypeKind::NumberType:
      return value.isInt() || value.isDouble() || value.isBool() || value.isComplexDouble();
    case TypeKind::StringType:
      return value.isString();
    case TypeKind::DeviceObjType:
      return value.isDevice();
    case TypeKind::GeneratorType:
      return value.isGenerator();
    case TypeKind::ListType: {
      if (!value.isList()) return false;
      const c10::Type& element = *type.castRaw<c10::ListType>()->getElementType();
      const auto items = value.toListRef();
      return std::all_of(items.begin(), items.end(),
                         [&](const c10::IValue& item) { return fits(item, element); });
    }
    default:
      return !value.isNone() && !value.isTensor();
  }
}

// A Python number that was wrapped for the sake of the signature.
bool is_wrapped_number(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined()) return false;
  const at::Tensor& tensor = value.toTensor();
  return tensor.dim() == 0 && tensor.is_cpu() && tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

std::string kind_text(const Arg& arg) {
  switch (arg.kind) {
    case Arg::Kind::Value:
      return "a tensor";
    case Arg::Kind::ValueList:
      return arg.optional_elements ? "a list of Tensor?" : "a list of Tensor";
    case Arg::Kind::Constant:
      break;
  }
  if (arg.constant.isTensor()) return "a tensor that is no wrapped number";
  return "a constant of kind " + arg.constant.tagKind();
}

bool holds_none(const Arg& arg) {
  return std::find(arg.values.begin(), arg.values.end(), kNoValue) != arg.values.end();
}

bool argument_fits(const Arg& arg, const c10::Argument& argument) {
  const c10::Type& type = *argument.type();
  if (arg.kind == Arg::Kind::Value && takes_number(argument)) return !holds_none(arg);
  if (arg.kind == Arg::Kind::ValueList && takes_numbers(argument)) return !holds_none(arg);
  const bool none = arg.kind == Arg::Kind::Constant && arg.constant.isNone();
  if (none && is_optional(type)) return true;
  if (is_tensor(type)) {
    if (arg.kind == Arg::Kind::Value) return arg.values.size() == 1 && !holds_none(arg);
    return arg.kind == Arg::Kind::Constant && is_wrapped_number(arg.constant);
  }
  if (const c10::Type* element = tensor_elements(type)) {
    return arg.kind == Arg::Kind::ValueList && arg.optional_elements == is_optional(*element) &&
           (arg.optional_elements || !holds_none(arg));
  }
  return arg.kind == Arg::Kind::Constant && fits(arg.constant, type);
}

bool result_fits(const Arg& result, const c10::Type& type) {
  if (is_tensor(type)) {
    if (result.kind == Arg::Kind::Value) return result.values.size() == 1 && !holds_none(result);
    return result.kind == Arg::Kind::Constant && result.constant.isNone();
  }
  if (tensor_elements(type)) return result.kind == Arg::Kind::ValueList;
  return result.kind == Arg::Kind::Constant;
}

}  // namespace

std::string schema_fault(const Call& call) {
  const c10::FunctionSchema& schema = call.op.aten->schema();
  const auto& arguments = schema.arguments();
  if (call.args.size() != arguments.size())
    return fmt::format("{} arguments where the schema has {}", call.args.size(), arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (argument_fits(call.args[i], arguments[i])) continue;
    return fmt::format("argument {} takes {}, not {}", arguments[i].name(),
                       arguments[i].type()->annotation_str(), kind_text(call.args[i]));
  }
  const auto& returns = schema.returns();
  if (call.results.size() != returns.size())
    return fmt::format("{} results where the schema has {}", call.results.size(), returns.size());
  for (size_t i = 0; i < returns.size(); ++i) {
    if (result_fits(call.results[i], *returns[i].type())) continue;
    return fmt::format("result {} is {}, not {}", i, returns[i].type()->annotation_str(),
                       kind_text(call.results[i]));
  }
  return "";
}

}  // namespace fulgurite
