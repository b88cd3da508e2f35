#include "codegen/jit/outside_functions.h"

#include <math.h>
#include <string.h>

#include <array>

namespace fulgurite {
namespace {

struct OutsideFunction {
  std::string_view name;
  void* address;
};

template <class F>
OutsideFunction named(std::string_view name, F* function) {
  return {name, reinterpret_cast<void*>(function)};
}

using Unary = double(double);
using UnaryF = float(float);
using Binary = double(double, double);
using BinaryF = float(float, float);

#define UNARY(name) named<Unary>(#name, ::name), named<UnaryF>(#name "f", ::name##f)
#define BINARY(name) named<Binary>(#name, ::name), named<BinaryF>(#name "f", ::name##f)

const auto& table() {
  static const std::array functions = {
      named<void*(void*, const void*, size_t)>("memcpy", ::memcpy),
      named<void*(void*, const void*, size_t)>("memmove", ::memmove),
      named<void*(void*, int, size_t)>("memset", ::memset),
      UNARY(acos),
      UNARY(acosh),
      UNARY(asin),
      UNARY(asinh),
      UNARY(atan),
      UNARY(atanh),
      UNARY(cbrt),
      UNARY(ceil),
      UNARY(cos),
      UNARY(cosh),
      UNARY(erf),
      UNARY(erfc),
      UNARY(exp),
      UNARY(exp2),
      UNARY(expm1),
      UNARY(floor),
      UNARY(lgamma),
      UNARY(log),
      UNARY(log10),
      UNARY(log1p),
      UNARY(log2),
      UNARY(nearbyint),
      UNARY(rint),
      UNARY(round),
      UNARY(sin),
      UNARY(sinh),
      UNARY(sqrt),
      UNARY(tan),
      UNARY(tanh),
      UNARY(tgamma),
      UNARY(trunc),
      BINARY(atan2),
      BINARY(copysign),
      BINARY(fmod),
      BINARY(hypot),
      BINARY(nextafter),
      BINARY(pow),
      BINARY(remainder),
  };
  return functions;
}

}  // namespace

void* outside_function(std::string_view name) {
  for (const OutsideFunction& function : table())
    if (function.name == name) return function.address;
  return nullptr;
}

}  // namespace fulgurite
