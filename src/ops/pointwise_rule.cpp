#include "ops/pointwise_rule.h"

#include <ATen/ATen.h>

namespace fulgurite {
namespace {

c10::Scalar number_of(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().item();
  if (value.isBool()) return value.toBool();
  if (!value.isScalar()) throw Unsupported("an argument that is no number");
  return value.toScalar();
}

Scalar to_narrow(Scalar x, c10::ScalarType nominal) {
  return computed_in(nominal) == nominal ? x : round_to(x, nominal);
}

}  // namespace

c10::Scalar Plain::number() const {
  if (!value) throw Unsupported("a number that is computed from tensors");
  return number_of(*value);
}

namespace rule_detail {

Scalar in_nominal(const RuleCall& call, const RuleArg& arg) {
  const c10::ScalarType dtype = computed_in(call.nominal);
  if (!arg.constant) {
    const Scalar x = convert(arg.value, dtype);
    // ATen's arithmetic reads 0-dim tensors in full precision.
    const bool exact = arg.dtype == call.nominal || (arg.is_zero_dim && !call.rounds_numbers);
    return exact ? x : to_narrow(x, call.nominal);
  }
  const c10::Scalar number = number_of(*arg.constant);
  if (number.isComplex()) throw Unsupported("a complex number");
  const Scalar x = constant(*call.graph, dtype, number);
  return call.rounds_numbers ? to_narrow(x, call.nominal) : x;
}

Scalar in_own_dtype(const RuleCall& call, const RuleArg& arg) {
  if (!arg.constant) return arg.value;
  const c10::Scalar number = number_of(*arg.constant);
  if (number.isComplex()) throw Unsupported("a complex number");
  return constant(*call.graph, number.type(), number);
}

}  // namespace rule_detail
}  // namespace fulgurite
