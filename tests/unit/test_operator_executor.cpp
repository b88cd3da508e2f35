// Executors made of functions over tensors: their regions, and what is said of bad results.
#include <doctest/doctest.h>

#include <stdexcept>

#include "base/error.h"
#include "compile/jit.h"
#include "executors/aten/aten.h"
#include "executors/operators/operators.h"

using namespace fulgurite;

namespace {

using Tensors = std::vector<at::Tensor>;

CompileOptions with(CallFunction function) {
  OperatorRules rules;
  rules.claims = [](const Trace&, const Call& call) {
    return call.op.name() == "aten::mul.Tensor" ? "" : "it is no product";
  };
  rules.lower = [function](const Trace&, const Call&) { return function; };
  CompileOptions options;
  options.executors = {operator_executor("mine", std::move(rules)), aten_executor()};
  options.verify = true;
  return options;
}

at::Tensor program(const at::Tensor& a, const at::Tensor& b) { return (a * b + a) * a; }

std::string error_of(CallFunction function) {
  auto compiled = jit(&program, with(std::move(function)));
  try {
    compiled(at::ones({2, 3}), at::ones({2, 3}));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("each call that a function runs is a region of its own") {
  auto compiled = jit(&program, with([](const Tensors& t) { return Tensors{t[0] * t[1]}; }));
  const at::Tensor a = at::randn({2, 3}), b = at::randn({2, 3});
  CHECK(at::equal(compiled(a, b), program(a, b)));
  const Trace last = compiled.last_traces().back();
  REQUIRE(last.calls.size() == 3);
  CHECK(last.calls[0].op.name() == "mine0");
  CHECK(last.calls[0].body[0].op.name() == "aten::mul.Tensor");
  CHECK(last.calls[1].op.name() == "aten::add.Tensor");
  CHECK(last.calls[2].op.name() == "mine1");
  CHECK(last.calls[2].executor == "mine");
}

TEST_CASE("what a function may not return") {
  CHECK(contains(error_of([](const Tensors& t) { return Tensors{t[0].sum()}; }),
                 "result 0 is \"cpu f32[]\", expected \"cpu f32[2, 3]\""));
  CHECK(contains(error_of([](const Tensors& t) { return Tensors{t[0]}; }),
                 "shares memory with argument 0"));
  CHECK(contains(error_of([](const Tensors& t) { return Tensors{t[1].mul_(t[0]).clone()}; }),
                 "it wrote to argument 1"));
  CHECK(contains(error_of([](const Tensors&) { return Tensors(); }), "0 tensors, expected 1"));
  CHECK(contains(error_of([](const Tensors&) { return Tensors(1); }), "result 0 is None"));
  CHECK(contains(error_of([](const Tensors&) -> Tensors { throw std::runtime_error("so be it"); }),
                 "the executor mine failed in t2 = torch.mul(x0, x1): so be it"));
}

TEST_CASE("memory that a function keeps is not given away") {
  const at::Tensor kept = at::zeros({2, 3});
  auto compiled = jit([](const at::Tensor& a) { return a * a; }, with([kept](const Tensors& t) {
                        at::Tensor result = kept;
                        result.copy_(t[0] * t[1]);
                        return Tensors{result};
                      }));
  const at::Tensor two = compiled(at::full({2, 3}, 2.)), three = compiled(at::full({2, 3}, 3.));
  CHECK(at::equal(two, at::full({2, 3}, 4.)));
  CHECK(at::equal(three, at::full({2, 3}, 9.)));
}

TEST_CASE("gradients are refused unless the functions have them") {
  CompileOptions options = with([](const Tensors& t) { return Tensors{t[0] * t[1]}; });
  auto compiled = jit([](const at::Tensor& a) { return a * a; }, options);
  const at::Tensor x = at::ones({3}).requires_grad_();
  compiled(x).sum().backward();
  CHECK(at::equal(x.grad(), at::full({3}, 2.)));
  CHECK(compiled.last_traces().back().calls[0].executor == "aten");
}
