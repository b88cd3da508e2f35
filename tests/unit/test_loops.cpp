// Lowering to loop programs, and their text.
#include <doctest/doctest.h>

#include "codegen/loops/bind.h"
#include "codegen/loops/lower.h"
#include "codegen/loops/print_cpu.h"
#include "golden.h"
#include "ops/facts.h"
#include "trace_builder.h"

namespace fulgurite {
namespace {

struct Program {
  Trace trace;

  ValueId input(const TensorType& type) {
    const ValueId id = add_value(trace, type);
    trace.inputs.push_back({id});
    return id;
  }
  ValueId call(const char* name, const char* overload, std::vector<Arg> args,
               const TensorType& type) {
    const ValueId id = add_value(trace, type);
    Call made;
    made.op = find_op(name, overload);
    made.args = std::move(args);
    made.results = {Arg::of(id)};
    trace.calls.push_back(std::move(made));
    return id;
  }
  std::variant<LoopProgram, Refusal> lower(std::vector<ValueId> outputs) const {
    std::vector<ValueId> inputs;
    for (const Input& input : trace.inputs) inputs.push_back(input.id);
    return lower_region(trace, trace.calls, inputs, outputs);
  }
};

Program product_of_sum() {
  Program p;
  const ValueId x = p.input(f32({64, 1024})), y = p.input(f32({1024}));
  const ValueId sum =
      p.call("aten::add", "Tensor", {Arg::of(x), Arg::of(y), Arg::literal(at::Scalar(1))},
             f32({64, 1024}));
  p.call("aten::mul", "Tensor", {Arg::of(sum), Arg::of(x)}, f32({64, 1024}));
  return p;
}

TEST_CASE("a chain is one loop") {
  const auto lowered = product_of_sum().lower({3});
  REQUIRE(std::holds_alternative<LoopProgram>(lowered));
  const LoopProgram& program = std::get<LoopProgram>(lowered);
  CHECK((program.sizes == Dims{64, 1024}));
  CHECK(program.loads.size() == 2);
  CHECK(program.places() == 64 * 1024);
  CHECK(program.bytes() == 4 * (2 * 64 * 1024 + 1024));
  check_golden("loops/chain.txt", to_text(program));
  check_golden("loops/chain.cpp.txt", print_cpu(program, "fusion0", 64));
}

TEST_CASE("softmax is a row at a time") {
  Program p;
  const ValueId x = p.input(f32({8, 100}));
  p.call("aten::_softmax", "", {Arg::of(x), Arg::literal(int64_t{-1}), Arg::literal(false)},
         f32({8, 100}));
  const auto lowered = p.lower({1});
  REQUIRE(std::holds_alternative<LoopProgram>(lowered));
  const LoopProgram& program = std::get<LoopProgram>(lowered);
  CHECK(program.places() == 8);
  CHECK(program.reductions.size() == 2);
  CHECK(program.reductions[1].pass == 1);
  check_golden("loops/softmax.txt", to_text(program));
  check_golden("loops/softmax.cpp.txt", print_cpu(program, "fusion0", 64));
}

TEST_CASE("what has no loop form is refused with a reason") {
  Program p;
  const ValueId x = p.input(f32({4, 4}));
  p.call("aten::mm", "", {Arg::of(x), Arg::of(x)}, f32({4, 4}));
  const auto lowered = p.lower({1});
  REQUIRE(std::holds_alternative<Refusal>(lowered));
  CHECK(std::get<Refusal>(lowered) == "a product of several rows");
  CHECK(refuse_in_loops(p.trace, p.trace.calls[0]) == "a product of several rows");
}

TEST_CASE("pointers go to the first element of each access") {
  const auto lowered = product_of_sum().lower({3});
  const LoopProgram& program = std::get<LoopProgram>(lowered);
  float x[1], y[1], z[1];
  const Pointers data{x, y, z};
  const BoundLoops bound = fulgurite::bind(program, data, 1 << 20);
  CHECK((bound.pointers == data));
  CHECK(bound.places == 64 * 1024);
  CHECK(bound.streaming == 0);
  CHECK(fulgurite::bind(program, data, 1 << 18).streaming == 1);
}

}  // namespace
}  // namespace fulgurite
