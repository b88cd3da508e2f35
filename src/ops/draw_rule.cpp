#include "ops/draw_rule.h"

#include <cmath>

namespace fulgurite {
namespace {

using c10::ScalarType;

constexpr int kDoubleBits = 53, kFloatBits = 24;

// The bits of two words that a double has room for; the first word is the upper half.
Scalar double_bits(Scalar words) {
  constexpr int64_t kWord = 0xffffffff, kUpper = (int64_t{1} << (kDoubleBits - 32)) - 1;
  return ((words & words.like(kUpper)) << words.like(32)) |
         ((words >> words.like(32)) & words.like(kWord));
}

}  // namespace

Scalar DrawCall::value(size_t i) const {
  RuleCall call{.graph = graph, .nominal = nominal, .args = args};
  return rule_detail::in_own_dtype(call, args[i]);
}

double DrawCall::number(size_t i) const { return Plain{args[i].constant}.number().toDouble(); }

Scalar DrawCall::of(ScalarType dtype, double number) const {
  return constant(*graph, dtype, number);
}

Scalar DrawCall::uniform() const {
  if (word.dtype() == ScalarType::Long)
    return convert(double_bits(word), ScalarType::Double) * std::ldexp(1.0, -kDoubleBits);
  const Scalar bits = word & word.like((int64_t{1} << kFloatBits) - 1);
  return convert(bits, ScalarType::Float) * std::ldexp(1.0, -kFloatBits);
}

// bits * 2^-53 < number, without a float.
Scalar DrawCall::is_below(double number) const {
  const auto bound = static_cast<int64_t>(std::ceil(std::ldexp(number, kDoubleBits)));
  return double_bits(word) < word.like(bound);
}

}  // namespace fulgurite
