#include <doctest/doctest.h>

#include "codegen/jit/compile.h"

namespace fulgurite {
namespace {

constexpr const char* kAdd = R"(
typedef float Vector __attribute__((vector_size(16), aligned(4)));
extern "C" void add(const float* a, const float* b, float* out, long n) {
  long i = 0;
  for (; i + 4 <= n; i += 4) *(Vector*)(out + i) = *(const Vector*)(a + i) + *(const Vector*)(b + i);
  for (; i < n; ++i) out[i] = a[i] + b[i];
}
)";

TEST_CASE("a text is compiled, loaded and runs") {
  const KernelPointer kernel = compile_kernel(kAdd, "add");
  REQUIRE(kernel);
  const float a[] = {1, 2, 3, 4, 5}, b[] = {10, 20, 30, 40, 50};
  float out[5] = {};
  kernel->function<void(const float*, const float*, float*, long)>()(a, b, out, 5);
  for (int i = 0; i < 5; ++i) CHECK(out[i] == a[i] + b[i]);
}

}  // namespace
}  // namespace fulgurite
