// What calls are but for the numbers of their values.
#include <array>

#include "ir/structure.h"

#include "trace_builder.h"

#include <doctest/doctest.h>  // last: torch has a CHECK of its own

using namespace fulgurite;

namespace {

std::string structure_of(const Trace& trace, size_t call, c10::ArrayRef<ValueId> inputs = {}) {
  Structure structure;
  const auto bytes = structure.of(trace, std::array{&trace.calls.at(call)}, inputs);
  REQUIRE(bytes.has_value());
  return *bytes;
}

ValueId add_sum(Trace& trace, ValueId a, ValueId b, int64_t alpha = 1) {
  return add_call(trace, "aten::add", "Tensor", {Arg::of(a), Arg::of(b), literal(alpha)}, f32({2}));
}

}  // namespace

TEST_CASE("calls of one structure differ by the numbers of their values alone") {
  Trace trace;
  const ValueId a = add_input(trace, "a", f32({2})), b = add_input(trace, "b", f32({2})),
                c = add_input(trace, "c", f32({3}));
  const ValueId sum = add_sum(trace, a, b);
  add_sum(trace, b, sum);
  CHECK(structure_of(trace, 0) == structure_of(trace, 1));
  add_sum(trace, a, a);  // one value twice
  add_sum(trace, a, c);  // another type
  add_sum(trace, a, b, 2);
  for (size_t other : {2, 3, 4}) CHECK(structure_of(trace, 0) != structure_of(trace, other));
  CHECK(structure_of(trace, 0, {a, b}) != structure_of(trace, 0, {b, a}));
}

TEST_CASE("which values share memory is part of the structure") {
  Trace trace;
  const ValueId a = add_input(trace, "a", f32({2})), b = add_input(trace, "b", f32({2}));
  TensorType shared = f32({2});
  shared.storage = type_of(trace, a).storage;
  const ValueId view = add_input(trace, "v", shared);
  add_sum(trace, a, b);
  add_sum(trace, a, view);
  CHECK(structure_of(trace, 0) != structure_of(trace, 1));
}

TEST_CASE("a call with another kind of constant has no structure") {
  Trace trace;
  const ValueId a = add_input(trace, "a", f32({2}));
  add_call(trace, "aten::bernoulli", "",
           {Arg::of(a), literal(at::detail::getDefaultCPUGenerator())}, f32({2}));
  Structure structure;
  CHECK(!structure.of(trace, std::array<const Call*, 1>{&trace.calls[0]}).has_value());
}
