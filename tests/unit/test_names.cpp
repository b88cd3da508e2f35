#include <doctest/doctest.h>

#include "ir/names.h"
#include "trace_builder.h"

using namespace fulgurite;

namespace {

// What values with these names are called; "" for an unnamed one.
std::vector<std::string> named(const std::vector<std::string>& wanted) {
  Trace trace;
  for (const std::string& name : wanted) add_input(trace, name, f32({}));
  Names names(trace);
  std::vector<std::string> result;
  for (ValueId id = 0; id < static_cast<ValueId>(wanted.size()); ++id) {
    result.push_back(names.of(id));
    CHECK(spell(trace, id) == result.back());
  }
  return result;
}

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("names become identifiers") {
  CHECK(named({"", "a", "layers.0.fc", "0", "a b-c"}) ==
        Strings{"t0", "a", "layers_0_fc", "_0", "a_b_c"});
  CHECK(named({"gr\xc3\xb6\xc3\x9f"
               "e",
               "\xce\xb1"}) == Strings{"gru"
                                       "f6udfe",
                                       "u3b1"});
}

TEST_CASE("names that mean something else get a number") {
  CHECK(named({"lambda", "torch", "float", "_", "None", "match"}) ==
        Strings{"lambda_1", "torch_1", "float_1", "__1", "None_1", "match"});
}

TEST_CASE("no two values are called the same") {
  CHECK(named({"a.b", "a_b", "a/b", "a_b_1"}) == Strings{"a_b", "a_b_1", "a_b_2", "a_b_1_1"});
}

TEST_CASE("no value takes the number of another") {
  CHECK(named({"t1", ""}) == Strings{"t1_1", "t1"});
  CHECK(named({"t0", "t2", "x"}) == Strings{"t0", "t2", "x"});  // value 2 has a name of its own
  CHECK(named({"t7", "t07"}) == Strings{"t7_1", "t07"});        // a later pass may make value 7
}

TEST_CASE("functions have names of their own") {
  Trace trace;
  trace.name = "my computation";
  const ValueId x = add_input(trace, "fusion0", f32({}));
  trace.calls.push_back(region_call("fusion0", {x}, {x}, {}));
  trace.calls.push_back(region_call("fusion0", {x}, {x}, {}));
  trace.calls.push_back(region_call("my_computation", {x}, {x}, {}));
  Names names(trace);
  CHECK(names.function() == "my_computation");
  CHECK(names.of(x) == "fusion0");
  CHECK(names.region(trace.calls[0]) == "fusion0_1");
  CHECK(names.region(trace.calls[1]) == "fusion0_2");
  CHECK(names.region(trace.calls[2]) == "my_computation_1");
}
