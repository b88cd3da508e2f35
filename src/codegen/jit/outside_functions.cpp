#include "codegen/jit/outside_functions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <array>

// Each in double, and in float with an f at the end of its name.
// clang-format off
#define FUNCTIONS_OF_ONE(X)                                                                  \
  X(acos) X(acosh) X(asin) X(asinh) X(atan) X(atanh) X(cbrt) X(ceil) X(cos) X(cosh) X(erf)   \
  X(erfc) X(exp) X(exp2) X(expm1) X(floor) X(lgamma) X(log) X(log10) X(log1p) X(log2)        \
  X(nearbyint) X(rint) X(round) X(sin) X(sinh) X(sqrt) X(tan) X(tanh) X(tgamma) X(trunc)
// clang-format on
#define FUNCTIONS_OF_TWO(X) X(atan2) X(copysign) X(fmod) X(hypot) X(nextafter) X(pow) X(remainder)

namespace fulgurite {
namespace {

struct OutsideFunction {
  std::string_view name;
  void* address;
};

// The signature picks one of the overloads that C++ adds.
template <class Signature>
OutsideFunction named(std::string_view name, Signature* function) {
  return {name, reinterpret_cast<void*>(function)};
}

const auto& table() {
#define OF_ONE(name) \
  named<double(double)>(#name, ::name), named<float(float)>(#name "f", ::name##f),
#define OF_TWO(name) \
  named<double(double, double)>(#name, ::name), named<float(float, float)>(#name "f", ::name##f),
  static const std::array functions = {
      FUNCTIONS_OF_ONE(OF_ONE) FUNCTIONS_OF_TWO(OF_TWO)
          named<void*(void*, const void*, size_t)>("memcpy", ::memcpy),
      named<void*(void*, const void*, size_t)>("memmove", ::memmove),
      named<void*(void*, int, size_t)>("memset", ::memset),
      named<void*(size_t, size_t)>("aligned_alloc", ::aligned_alloc),
      named<void(void*)>("free", ::free)};
  return functions;
}

}  // namespace

void* outside_function(std::string_view name) {
  for (const OutsideFunction& function : table())
    if (function.name == name) return function.address;
  return nullptr;
}

}  // namespace fulgurite
