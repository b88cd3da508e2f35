// Meta rules in a program without Python; test_meta_rules.py compares them all with the kernels.
#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/catalogue.h"
#include "ops/facts.h"
#include "ops/meta.h"

using namespace fulgurite;

namespace {

at::Tensor meta(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  return at::empty(sizes, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

torch::jit::Stack results(const char* name, const char* overload, torch::jit::Stack stack) {
  const c10::OperatorHandle op = find_op(name, overload);
  const c10::KernelFunction* rule = meta_rule(op);
  REQUIRE(rule);
  at::AutoDispatchBelowADInplaceOrView below;
  rule->callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  return stack;
}

}  // namespace

TEST_CASE("every rule of the catalogue fits its operator") {
  int rules = 0;
  for (auto family : catalogue())
    for (const OpRecord& record : family) {
      if (!record.meta.kernel) continue;
      std::string name(record.op);
      if (name.find("::") != std::string::npos) continue;  // another library's: not loaded
      std::string overload;
      name = "aten::" + name;
      if (const auto dot = name.find('.'); dot != std::string::npos) {
        overload = name.substr(dot + 1);
        name.resize(dot);
      }
      CHECK_NOTHROW(meta_rule(find_op(name.c_str(), overload.c_str())));
      ++rules;
    }
  CHECK(rules > 200);
}

TEST_CASE("a rule gives sizes, strides and dtype") {
  const auto normed = results("aten::native_layer_norm", "",
                              {meta({2, 3, 4}).transpose(0, 1), c10::List<int64_t>({4}),
                               c10::IValue(), c10::IValue(), 1e-5});
  REQUIRE(normed.size() == 3);
  CHECK(normed[0].toTensor().sizes() == at::IntArrayRef({3, 2, 4}));
  CHECK(normed[0].toTensor().is_contiguous());
  CHECK(normed[1].toTensor().sizes() == at::IntArrayRef({3, 2, 1}));
  CHECK(normed[0].toTensor().is_meta());
}

TEST_CASE("a rule raises what the kernel raises") {
  CHECK_THROWS_AS(
      results("aten::embedding", "", {meta({3}), meta({2}, at::kLong), -1, false, false}),
      c10::Error);
  CHECK_THROWS_AS(results("aten::dot", "", {meta({3}), meta({4})}), c10::Error);
}

TEST_CASE("overloads that write follow from their functional form") {
  at::Tensor x = meta({2, 3});
  CHECK(results("aten::relu_", "", {x})[0].toTensor().is_same(x));
  // Out of place the result would be larger.
  CHECK_THROWS_AS(results("aten::logical_and_", "", {meta({3}), meta({2, 3})}), c10::Error);
  at::Tensor out = meta({0}, at::kBool);
  CHECK(results("aten::logical_not", "out", {x.t(), out})[0].toTensor().is_same(out));
  CHECK(out.sizes() == at::IntArrayRef({3, 2}));
  CHECK(out.strides() == at::IntArrayRef({1, 3}));
  CHECK(out.storage().nbytes() >= 6);
}

TEST_CASE("operators without a rule are torch's") {
  CHECK(meta_rule(find_op("aten::addmm")) == nullptr);
  CHECK(meta_rule(find_op("aten::view")) == nullptr);
}
