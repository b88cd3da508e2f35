// Which calls are put together, and where the regions then stand.
#include <torch/types.h>

#include <functional>
#include <utility>

#include "capture/replay.h"
#include "capture/tracer.h"
#include "executors/aten/aten.h"
#include "ir/verify.h"
#include "ops/facts.h"
#include "passes/passes.h"
#include "runtime/plan.h"

#include "trace_builder.h"

#include <doctest/doctest.h>  // last: torch has a CHECK of its own

using namespace fulgurite;

namespace {

using Tensors = std::vector<at::Tensor>;

const at::Tensor kInput = at::arange(12, at::kFloat).view({3, 4});

// Takes elementwise operators, views and a draw.
Executor fuser(decltype(Executor::fuses) fuses) {
  const auto claims = [](const Trace&, const Call& call) -> Refusal {
    static const std::set<std::string> names{"aten::add",      "aten::mul",  "aten::relu",
                                             "aten::neg",      "aten::view", "aten::t",
                                             "aten::bernoulli"};
    if (!call.op.aten || !names.contains(call.op.aten->schema().name())) return "another operator";
    return "";
  };
  return {"fuser", claims, std::move(fuses), nullptr};
}

Quote fuse_all(const Trace&, std::span<const Call* const>, c10::ArrayRef<ValueId>,
               c10::ArrayRef<ValueId>) {
  return {};
}

// The names of a placed trace's calls, with those in regions in brackets.
std::string placed(const std::function<Tensors(const at::Tensor&)>& program,
                   decltype(Executor::fuses) fuses = fuse_all,
                   std::vector<Decision>* decisions = nullptr) {
  Tracer tracer;
  const at::Tensor traced = tracer.input(kInput, "x");
  Tensors outputs;
  {
    Tracer::Listening listening(tracer);
    const at::NoGradGuard no_grad;
    outputs = program(traced);
  }
  const auto count = static_cast<int32_t>(outputs.size());
  Captured captured = tracer.finish(outputs, flat_tree(count));
  captured.trace = dead_code(functionalise(captured.trace));
  const Executor executors[] = {fuser(std::move(fuses)), aten_executor()};
  const Trace trace = place(captured.trace, executors, decisions);
  verify(trace, "placed");

  std::string text;
  const std::function<void(const std::vector<Call>&)> list = [&](const std::vector<Call>& calls) {
    for (const Call& call : calls) {
      if (!text.empty() && text.back() != '[') text += ' ';
      if (call.op.aten) {
        text += call.op.aten->schema().name().substr(6);
        continue;
      }
      text += call.op.region + "[";
      list(call.body);
      text += ']';
    }
  };
  list(trace.calls);

  Tensors inputs{kInput.clone()}, eager;
  for (const at::Tensor& lifted : captured.lifted) inputs.push_back(lifted);
  at::manual_seed(0);
  const Tensors result = replay(trace, inputs);
  const at::Tensor again = kInput.clone();
  at::manual_seed(0);
  eager = program(again);
  REQUIRE(result.size() == eager.size());
  for (size_t i = 0; i < eager.size(); ++i) {
    CHECK(at::equal(result[i], eager[i]));
    for (size_t k = 0; k < i; ++k)
      CHECK(result[i].is_alias_of(result[k]) == eager[i].is_alias_of(eager[k]));
  }
  CHECK(at::equal(inputs[0], again));
  return text;
}

}  // namespace

TEST_CASE("calls that use one another's results are one region") {
  CHECK(placed([](const at::Tensor& x) -> Tensors { return {((x + 1) * x).relu()}; }) ==
        "fusion0[add mul relu]");
  CHECK(placed([](const at::Tensor& x) -> Tensors {
          const at::Tensor a = x + 1, b = x * 2;
          return {a * b};
        }) == "fusion0[add mul mul]");
}

TEST_CASE("what others make of a region does not come back into it") {
  CHECK(placed([](const at::Tensor& x) -> Tensors {
          const at::Tensor a = x.neg() + 1;
          const at::Tensor b = a.mm(x.t()), c = a.sum();
          return {b.relu() + c, a * 2};
        }) == "t fusion0[neg add mul] mm sum fusion1[relu add]");
  // Each of the two could take the last call, and not both.
  CHECK(placed([](const at::Tensor& x) -> Tensors {
          const at::Tensor a = x.relu() + 1;
          const at::Tensor b = a.cumsum(0).neg() * 2;
          return {a.cumsum(1) + b + a};
        }) == "fusion0[relu add] cumsum cumsum fusion1[neg mul add add]");
}

TEST_CASE("a call may give an argument back as it is") {
  CHECK(placed([](const at::Tensor& x) -> Tensors { return at::broadcast_tensors({x, x[0]}); }) ==
        "select broadcast_tensors");
}

TEST_CASE("nothing moves across an effect") {
  CHECK(placed([](const at::Tensor& x) -> Tensors {
          const at::Tensor a = x + 1;
          at::_assert_async(x.any());
          return {(a * 2).relu() + a};
        }) == "add any _assert_async fusion0[mul relu add]");
}

TEST_CASE("draws stay in order, and nothing else minds them") {
  CHECK(placed([](const at::Tensor& x) -> Tensors {
          const at::Tensor a = x + 1;
          const at::Tensor noise = at::rand({3, 4});
          return {(a * 2).relu() + noise};
        }) == "rand fusion0[add mul relu add]");
  CHECK(placed([](const at::Tensor& x) -> Tensors {
          return {x.bernoulli(0.5) + x.bernoulli(0.5)};
        }) == "fusion0[bernoulli bernoulli add]");
  CHECK(placed([](const at::Tensor& x) -> Tensors {
          const at::Tensor a = x.bernoulli(0.5), b = at::rand({3, 4});
          return {a + x.bernoulli(0.5), b};
        }) == "bernoulli rand fusion0[bernoulli add]");
  CHECK(placed([](const at::Tensor& x) -> Tensors {
          x.bernoulli(0.5);  // nobody uses it
          return {x.bernoulli(0.5) + 1};
        }) == "fusion0[bernoulli bernoulli add]");
}

TEST_CASE("one call and its views are no region") {
  CHECK(placed([](const at::Tensor& x) -> Tensors { return {x.view({12}).relu().view({3, 4})}; }) ==
        "view relu view");
}

TEST_CASE("a view that is used outside stays a view") {
  CHECK(placed([](const at::Tensor& x) -> Tensors {
          const at::Tensor a = x.relu() + 1;
          const at::Tensor v = a.view({4, 3});
          return {v.neg() * 2, v};
        }) == "fusion0[relu add view neg mul] view");
  CHECK(placed([](const at::Tensor& x) -> Tensors {
          const at::Tensor a = x.relu() + 1;
          return {a, a.t()};
        }) == "fusion0[relu add] t");
}

TEST_CASE("writes to inputs come after all regions") {
  CHECK(placed([](const at::Tensor& x) -> Tensors {
          x.add_(1).mul_(2);
          return {x.relu() + 1};
        }) == "fusion0[add mul relu add] copy_");
}

TEST_CASE("the executor has the last word, and says why") {
  std::vector<Decision> decisions;
  const auto at_most_two = [](const Trace&, std::span<const Call* const> calls, auto,
                              auto) -> Quote {
    return {.refusal = calls.size() > 2 ? "three are many" : ""};
  };
  CHECK(placed([](const at::Tensor& x) -> Tensors { return {((x + 1) * x).relu().neg()}; },
               at_most_two, &decisions) == "fusion0[add mul] fusion1[relu neg]");
  const auto refused = std::find_if(decisions.begin(), decisions.end(), [](const Decision& d) {
    return d.refusal == "three are many";
  });
  REQUIRE(refused != decisions.end());
  CHECK(refused->call.find("relu") != std::string::npos);
  CHECK(refused->call.find("with") != std::string::npos);
}

TEST_CASE("calls are put together where that takes less time") {
  // Two calls take 2000 ns as one, any others half of what they take apart.
  const auto quote = [](const Trace&, std::span<const Call* const> calls, auto, auto) -> Quote {
    const auto count = static_cast<double>(calls.size());
    return {.refusal = "", .together = count == 2 ? 2300 : 500 * count, .apart = 1000};
  };
  std::vector<Decision> decisions;
  CHECK(placed([](const at::Tensor& x) -> Tensors { return {x.relu()}; }, quote) ==
        "fusion0[relu]");
  CHECK(placed([](const at::Tensor& x) -> Tensors { return {x.relu().neg()}; }, quote,
               &decisions) == "fusion0[relu] fusion1[neg]");
  CHECK(std::ranges::any_of(decisions, [](const Decision& d) {
    return d.refusal == "as one they take about 2.3 us, apart 1.0 us";
  }));
}

TEST_CASE("one call that gains nothing stays as it is, and it is said why") {
  const auto quote = [](const Trace&, std::span<const Call* const>, auto, auto) -> Quote {
    return {.refusal = "", .together = 1500, .apart = 1200};
  };
  std::vector<Decision> decisions;
  CHECK(placed([](const at::Tensor& x) -> Tensors { return {x.t().relu()}; }, quote, &decisions) ==
        "t relu");
  CHECK(std::ranges::any_of(decisions, [](const Decision& d) {
    return d.refusal == "alone it gains nothing: it takes about 1.5 us, with ATen 1.2 us";
  }));
}

TEST_CASE("calls of one shape that use the same are one region") {
  CHECK(placed([](const at::Tensor& x) -> Tensors { return {x + 1, x * 2}; }) ==
        "fusion0[add mul]");
  CHECK(placed([](const at::Tensor& x) -> Tensors { return {x + 1, x.t() * 2}; }) == "add t mul");
}

TEST_CASE("calls that only use the same are regions of sixteen") {
  const std::string text = placed([](const at::Tensor& x) -> Tensors {
    Tensors sums;
    for (int i = 0; i < 20; ++i) sums.push_back(x + i);
    return sums;
  });
  const size_t second = text.find("fusion1[");
  REQUIRE(second != text.npos);
  const auto count = [](std::string_view part) {
    size_t found = 0;
    for (size_t at = part.find("add"); at != part.npos; at = part.find("add", at + 1)) ++found;
    return found;
  };
  CHECK(count(std::string_view(text).substr(0, second)) == 16);
  CHECK(count(std::string_view(text).substr(second)) == 4);
}

TEST_CASE("what is cheap is computed again where that takes less time") {
  // A result that is used elsewhere takes 1000 ns; relu takes long.
  bool neg_is_cheap = true;
  const auto quote = [&](const Trace&, std::span<const Call* const> calls, auto,
                         c10::ArrayRef<ValueId> outputs) -> Quote {
    const auto takes_long = [&](const Call* call) {
      const std::string name = call->op.aten->schema().name();
      return name == "aten::relu" || (name == "aten::neg" && !neg_is_cheap);
    };
    return {.refusal = "",
            .together = 100 * static_cast<double>(calls.size()) +
                        1000 * static_cast<double>(outputs.size()),
            .apart = 2000,
            .is_cheap = std::ranges::none_of(calls, takes_long)};
  };
  std::vector<Decision> decisions;
  const auto branches = [](const at::Tensor& x) -> Tensors {
    const at::Tensor a = x.neg();
    const at::Tensor b = (a.relu() + 1).cumsum(0).relu();
    return {b + a};
  };
  CHECK(placed(branches, quote, &decisions) ==
        "fusion0[neg relu add] cumsum fusion1[neg relu add]");
  CHECK(std::ranges::any_of(decisions, [](const Decision& d) {
    return d.refusal.empty() && d.call.find("computed again with") != std::string::npos;
  }));
  neg_is_cheap = false;
  CHECK(placed(branches, quote) == "fusion0[neg relu add] cumsum fusion1[relu add]");
}

TEST_CASE("calls of one structure are asked about once") {
  int64_t asked = 0;
  const auto quote = [&](const Trace&, std::span<const Call* const>, auto, auto) -> Quote {
    ++asked;
    return {.refusal = "", .together = 1, .apart = 2};
  };
  const auto layer = [](const at::Tensor& x) { return (x.neg() + 1).cumsum(0); };
  placed([&](const at::Tensor& x) -> Tensors { return {layer(x)}; }, quote);
  const int64_t once = std::exchange(asked, 0);
  placed([&](const at::Tensor& x) -> Tensors { return {layer(layer(layer(layer(x))))}; }, quote);
  CHECK(asked == once);
}

TEST_CASE("a plan runs the code of a region, and its calls where the code declines") {
  Trace trace;
  const ValueId x = add_input(trace, "x", f32({2}));
  const ValueId sum =
      add_call(trace, "aten::add", "Tensor", {Arg::of(x), wrapped(1), literal(1)}, f32({2}));
  const ValueId product =
      add_call(trace, "aten::mul", "Tensor", {Arg::of(sum), wrapped(2)}, f32({2}));
  set_outputs(trace, {product});
  bool declines = false;
  Executor executor = fuser(fuse_all);
  executor.lower = [&](const Trace&, std::span<const Call* const> regions) {
    auto code = std::make_shared<RegionCode>();
    code->run = [&](RegionInputs, RegionTargets, RegionResults& results) {
      if (!declines) results.push_back(at::full({2}, 7.0f));
      return !declines;
    };
    return std::vector<RegionCodePointer>(regions.size(), code);
  };
  const Executor executors[] = {executor};
  const Plan plan(place(trace, executors), {.executors = executors});
  REQUIRE(plan.regions().size() == 1);
  CHECK(at::equal(plan.run({at::ones({2})})[0], at::full({2}, 7.0f)));
  declines = true;
  CHECK(at::equal(plan.run({at::ones({2})})[0], at::full({2}, 4.0f)));
}
