// A C++ program, captured and compiled without Python: what it was, every step, what is run.
#include <ATen/ATen.h>

#include <iostream>

#include "compile/jit.h"
#include "ir/print.h"

int main() {
  at::manual_seed(0);
  const at::Tensor weight = at::randn({3, 4});
  auto program = [&](const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor c = a + b;
    const at::Tensor d = b + a;
    const at::Tensor unused = c * c;
    return at::softmax(at::linear(c * d, weight), -1);
  };

  auto compiled = fulgurite::jit(program);
  const at::Tensor a = at::randn({2, 4}), b = at::randn({2, 4});
  const at::Tensor result = compiled(a, b);

  for (const fulgurite::Trace& trace : compiled.last_traces())
    std::cout << fulgurite::print(trace, {.times = true}) << '\n';

  const bool same = at::allclose(result, program(a, b)) && at::equal(compiled(a, b), result);
  std::cout << "as eager, twice: " << std::boolalpha << same << '\n'
            << "cache hits " << compiled.cache_hits() << ", misses " << compiled.cache_misses()
            << '\n';
  return same ? 0 : 1;
}
