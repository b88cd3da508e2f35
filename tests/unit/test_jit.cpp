#include <doctest/doctest.h>

#include <tuple>

#include "base/error.h"
#include "compile/jit.h"

using at::Tensor;

TEST_CASE("a compiled callable gives eager's results and reuses its entry") {
  const Tensor w = at::randn({3, 4});
  auto program = [w](const Tensor& x, const Tensor& y) {
    return std::tuple(at::linear(x + y, w), x.sum());
  };
  auto compiled = fulgurite::jit(program);
  const Tensor x = at::randn({2, 4}), y = at::randn({2, 4});
  for (int i = 0; i < 2; ++i) {
    auto [a, b] = compiled(x, y);
    auto [ea, eb] = program(x, y);
    CHECK(at::equal(a, ea));
    CHECK(at::allclose(b, eb, 1e-6));
  }
  CHECK(compiled.cache_hits() == 1);
  compiled(at::randn({5, 4}), at::randn({5, 4}));
  CHECK(compiled.cache_misses() == 2);
}

TEST_CASE("writes to arguments, aliasing arguments and results that are arguments") {
  auto program = [](const Tensor& x, const Tensor& y) {
    x.add_(1);
    return std::vector<Tensor>{x, y * 2};
  };
  auto compiled = fulgurite::jit(program);
  for (int i = 0; i < 2; ++i) {
    Tensor x = at::ones({3}), y = at::ones({3});
    auto r = compiled(x, y);
    CHECK(r[0].is_same(x));
    CHECK(at::equal(x, at::full({3}, 2.0)));
    CHECK(at::equal(r[1], at::full({3}, 2.0)));
    Tensor z = at::ones({3});
    CHECK(at::equal(compiled(z, z)[1], at::full({3}, 4.0)));
  }
}

TEST_CASE("a captured tensor is read anew, and its type is checked") {
  Tensor w = at::ones({2});
  auto compiled = fulgurite::jit([w](const Tensor& x) { return x * w; });
  CHECK(at::equal(compiled(at::ones({2})), at::ones({2})));
  w.fill_(3);
  CHECK(at::equal(compiled(at::ones({2})), at::full({2}, 3.0)));
  w.resize_({1}).fill_(5);
  CHECK(at::equal(compiled(at::ones({2})), at::full({2}, 5.0)));
}

TEST_CASE("a program that reads data is refused") {
  auto compiled = fulgurite::jit([](const Tensor& x) { return x.item<float>() > 0 ? x : -x; });
  CHECK_THROWS_AS(compiled(at::ones({1})), fulgurite::Unsupported);
}

TEST_CASE("gradients flow through a compiled callable") {
  auto compiled = fulgurite::jit([](const Tensor& x) { return (x * x).sum(); });
  Tensor x = at::full({3}, 2.0).set_requires_grad(true);
  compiled(x).backward();
  CHECK(at::equal(x.grad(), at::full({3}, 4.0)));
}
