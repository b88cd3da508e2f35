#include "ops/scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "base/error.h"

namespace fulgurite {
namespace {

using c10::ScalarType;

constexpr std::array kNames{
    "acos", "acosh", "asin",  "asinh", "atan",         "atan2",     "atanh",   "ceil", "cos",
    "cosh", "erf",   "erfc",  "exp",   "exp2",         "expm1",     "floor",   "fmod", "hypot",
    "log",  "log10", "log1p", "log2",  "nearbyint",    "nextafter", "pow",     "sin",  "sinh",
    "sqrt", "tan",   "tanh",  "trunc", "exp_negative", "gelu_tanh", "sigmoid", "silu"};
static_assert(kNames.size() == static_cast<size_t>(Function::count_));

// An integer as a value of `dtype` holds it.
int64_t wrapped(int64_t value, ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Bool:
      return value != 0;
    case ScalarType::Byte:
      return static_cast<uint8_t>(value);
    case ScalarType::Char:
      return static_cast<int8_t>(value);
    case ScalarType::Short:
      return static_cast<int16_t>(value);
    case ScalarType::Int:
      return static_cast<int32_t>(value);
    default:
      return value;
  }
}

Scalar add(Scalar near, ScalarNode node) { return {near.graph, near.graph->add(node)}; }

bool compares(Prim prim) {
  return prim == Prim::Less || prim == Prim::LessEqual || prim == Prim::Equal ||
         prim == Prim::NotEqual;
}

}  // namespace

const char* name_of(Function f) { return kNames.at(static_cast<size_t>(f)); }

int arity_of(Function f) {
  switch (f) {
    case Function::atan2:
    case Function::fmod:
    case Function::hypot:
    case Function::nextafter:
    case Function::pow:
      return 2;
    default:
      return 1;
  }
}

bool is_rounding(Function f) {
  return f == Function::ceil || f == Function::floor || f == Function::trunc ||
         f == Function::nearbyint;
}

size_t ScalarGraph::Hash::operator()(const ScalarNode& node) const {
  uint64_t h = static_cast<uint64_t>(node.prim) << 8 | static_cast<uint64_t>(node.dtype);
  const auto mix = [&](uint64_t x) { h = (h ^ x) * 0x9E3779B97F4A7C15ull, h ^= h >> 29; };
  mix(static_cast<uint32_t>(node.at));
  for (int32_t arg : node.args) mix(static_cast<uint32_t>(arg));
  mix(node.constant);
  return h;
}

int32_t ScalarGraph::add(const ScalarNode& node) {
  const auto [it, fresh] = numbers_.emplace(node, size());
  if (fresh) nodes_.push_back(node);
  return it->second;
}

ScalarType computed_in(ScalarType dtype) {
  return dtype == ScalarType::Half || dtype == ScalarType::BFloat16 ? ScalarType::Float : dtype;
}

double double_of(const ScalarNode& constant) {
  return c10::isFloatingType(constant.dtype) ? std::bit_cast<double>(constant.constant)
                                             : static_cast<double>(int_of(constant));
}

int64_t int_of(const ScalarNode& constant) { return std::bit_cast<int64_t>(constant.constant); }

Scalar constant(ScalarGraph& graph, ScalarType dtype, const c10::Scalar& value) {
  ScalarNode node{.prim = Prim::Constant, .dtype = dtype};
  if (dtype == ScalarType::Float) {
    node.constant = std::bit_cast<uint64_t>(static_cast<double>(static_cast<float>(
        value.isIntegral(true) ? static_cast<double>(value.toLong()) : value.toDouble())));
  } else if (dtype == ScalarType::Double) {
    node.constant = std::bit_cast<uint64_t>(value.toDouble());
  } else if (dtype == ScalarType::Bool) {
    node.constant = value.isFloatingPoint() ? value.toDouble() != 0 : value.toLong() != 0;
  } else {
    node.constant = std::bit_cast<uint64_t>(wrapped(value.to<int64_t>(), dtype));
  }
  return {&graph, graph.add(node)};
}

const ScalarNode* as_constant(const Scalar& x) {
  const ScalarNode& node = (*x.graph)[x.node];
  return node.prim == Prim::Constant ? &node : nullptr;
}

Scalar given(ScalarGraph& graph, int64_t value) {
  if (value >= -1 && value <= 1) return constant(graph, ScalarType::Long, value);
  const auto known = std::ranges::find(graph.given, value);
  const auto number = static_cast<int32_t>(known - graph.given.begin());
  if (known == graph.given.end()) graph.given.push_back(value);
  return {&graph, graph.add({.prim = Prim::Given, .dtype = ScalarType::Long, .at = number})};
}

void must_hold(Scalar condition) {
  require(condition.is_bool(), "a condition is a bool");
  auto& checks = condition.graph->checks;
  if (std::ranges::find(checks, condition.node) == checks.end()) checks.push_back(condition.node);
}

Scalar Scalar::like(double value) const { return constant(*graph, dtype(), value); }
Scalar Scalar::like(int64_t value) const { return constant(*graph, dtype(), value); }

Scalar unary(Prim prim, Scalar x) {
  require(prim != Prim::Neg || !x.is_bool(), "bools have no negative");
  return add(x, {.prim = prim, .dtype = x.dtype(), .args = {x.node, -1, -1}});
}

Scalar binary(Prim prim, Scalar x, Scalar y) {
  require(x.dtype() == y.dtype(), "operands of one dtype, not {} and {}", c10::toString(x.dtype()),
          c10::toString(y.dtype()));
  const ScalarType dtype = compares(prim) ? ScalarType::Bool : x.dtype();
  return add(x, {.prim = prim, .dtype = dtype, .args = {x.node, y.node, -1}});
}

Scalar call(Function f, Scalar x) {
  require(x.is_float() && arity_of(f) == 1, "{} of one float", name_of(f));
  return add(x, {.prim = Prim::Call,
                 .dtype = x.dtype(),
                 .at = static_cast<int32_t>(f),
                 .args = {x.node, -1, -1}});
}

Scalar call(Function f, Scalar x, Scalar y) {
  require(x.is_float() && y.dtype() == x.dtype() && arity_of(f) == 2, "{} of two floats",
          name_of(f));
  return add(x, {.prim = Prim::Call,
                 .dtype = x.dtype(),
                 .at = static_cast<int32_t>(f),
                 .args = {x.node, y.node, -1}});
}

Scalar fma(Scalar x, Scalar y, Scalar z) {
  require(x.dtype() == y.dtype() && y.dtype() == z.dtype(), "fma of one dtype");
  return add(x, {.prim = Prim::Fma, .dtype = x.dtype(), .args = {x.node, y.node, z.node}});
}

Scalar select(Scalar condition, Scalar then, Scalar otherwise) {
  require(condition.is_bool(), "a condition is a bool");
  require(then.dtype() == otherwise.dtype(), "both choices have one dtype");
  if (then.node == otherwise.node) return then;
  return add(then, {.prim = Prim::Select,
                    .dtype = then.dtype(),
                    .args = {condition.node, then.node, otherwise.node}});
}

Scalar convert(Scalar x, ScalarType dtype) {
  require(computed_in(dtype) == dtype, "nothing is computed in {}", c10::toString(dtype));
  if (x.dtype() == dtype) return x;
  if (const ScalarNode* known = as_constant(x); known && !x.is_float())
    return constant(*x.graph, dtype, int_of(*known));
  return add(x, {.prim = Prim::Convert, .dtype = dtype, .args = {x.node, -1, -1}});
}

Scalar bits(Scalar x, ScalarType dtype) {
  require(c10::elementSize(x.dtype()) == c10::elementSize(dtype), "bits of another width");
  return add(x, {.prim = Prim::Bits, .dtype = dtype, .args = {x.node, -1, -1}});
}

Scalar round_to(Scalar x, ScalarType narrow) {
  require(x.dtype() == ScalarType::Float && computed_in(narrow) != narrow, "f32 to a narrow float");
  if (const ScalarNode* known = as_constant(x)) {
    const auto value = static_cast<float>(double_of(*known));
    const bool half = narrow == ScalarType::Half;
    const float rounded =
        half ? static_cast<float>(c10::Half(value)) : static_cast<float>(c10::BFloat16(value));
    return constant(*x.graph, x.dtype(), static_cast<double>(rounded));
  }
  return add(x, {.prim = Prim::Round,
                 .dtype = x.dtype(),
                 .at = static_cast<int32_t>(narrow),
                 .args = {x.node, -1, -1}});
}

}  // namespace fulgurite
