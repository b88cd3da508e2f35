#include <functional>

#include <doctest/doctest.h>

#include "base/error.h"
#include "ir/verify.h"
#include "trace_builder.h"

using namespace fulgurite;

namespace {

Arg of(ValueId id) { return Arg::of(id); }

// x, y; t2 = x + y; t3 = linear(t2, y), of t4 = y.t() and t2 @ t4
Trace sound() {
  Trace trace;
  const ValueId x = add_input(trace, "x", f32({2, 2})), y = add_input(trace, "y", f32({2, 2}));
  const ValueId z = add_call(trace, "aten::add", "Tensor", {of(x), of(y), literal(1)}, f32({2, 2}));
  const ValueId out = add_call(trace, "aten::linear", "", {of(z), of(y), none()}, f32({2, 2}));
  const ValueId yt = add_value(trace, f32({2, 2}));
  trace.calls[1].body = {make_call(find_op("aten::t"), {of(y)}, {of(yt)}),
                         make_call(find_op("aten::mm"), {of(z), of(yt)}, {of(out)})};
  set_outputs(trace, {out});
  return trace;
}

// What the verifier says of the sound trace after `damage`.
std::string fault(const std::function<void(Trace&)>& damage) {
  Trace trace = sound();
  damage(trace);
  try {
    verify(trace, "Some Pass");
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

bool says(const std::function<void(Trace&)>& damage, const std::string& expected) {
  const std::string text = fault(damage);
  const bool found = text.find(expected) != std::string::npos;
  if (!found) MESSAGE("it says: " << text);
  return found;
}

}  // namespace

TEST_CASE("sound traces pass") {
  CHECK(fault([](Trace&) {}) == "");
  CHECK(fault([](Trace& t) {  // a value handed back, a free, a change of geometry
          Call call = make_call(find_op("aten::t_"), {of(2)}, {of(2)});
          call.retyped = {{2, t.values[2].type}};
          call.frees = {2};
          t.calls.push_back(call);
        }) == "");
  CHECK(fault([](Trace& t) {  // a region that frees what it is given, once it has used it
          std::vector<Call> body = {make_call(find_op("aten::sin"), {of(0)}, {of(5)})};
          body[0].frees = {0};
          add_value(t, f32({2, 2}));
          t.calls.push_back(region_call("fusion0", {0}, {5}, body));
          t.outputs[0] = 0;
        }) == "");
}

TEST_CASE("the text names the pass and the call") {
  CHECK(fault([](Trace& t) { t.calls[1].args[0] = of(3); }) ==
        "The trace after Some Pass is not well formed: t3 is used before it is made\n"
        "  in call 1: torch.nn.functional.linear(t3, y)");
  Trace trace = sound();
  trace.outputs = {};
  CHECK_THROWS_WITH_AS(verify(trace, ""),
                       "The captured trace is not well formed: the tree of outputs has leaf 0 of 0",
                       InternalError);
}

TEST_CASE("values") {
  CHECK(says([](Trace& t) { t.calls[0].args[1] = of(2); }, "t2 is used before it is made"));
  CHECK(says([](Trace& t) { t.calls[0].frees = {1}; }, "y is used after it was freed"));
  CHECK(says([](Trace& t) { t.calls[1].frees = {0, 0}; }, "x is used after it was freed"));
  CHECK(says([](Trace& t) { t.calls[1].frees = {3}; }, "t3 is used after it was freed"));
  CHECK(says([](Trace& t) { t.inputs[1].id = 0; }, "x is made twice"));
  CHECK(says([](Trace& t) { t.calls.insert(t.calls.begin(), t.calls[0]); }, "t2 is made twice"));
  CHECK(says([](Trace& t) { t.outputs = {4}; }, "t4 is made in the body of a call"));
  CHECK(says([](Trace& t) { t.calls[0].args[0] = of(99); }, "there is no value 99"));
  CHECK(says([](Trace& t) { t.outputs = {-7}; }, "there is no value -7"));
  CHECK(says([](Trace& t) { t.calls[1].retyped = {{4, f32({2})}}; }, "t4 is made in the body"));
}

TEST_CASE("inputs") {
  CHECK(says([](Trace& t) { t.inputs[0].kind = InputKind::Buffer; },
             "y is an argument after a lifted tensor"));
}

TEST_CASE("types") {
  CHECK(
      says([](Trace& t) { t.values[2].type.strides.pop_back(); }, "t2 has 2 sizes and 1 strides"));
  CHECK(says([](Trace& t) { t.values[2].type.storage = 77; }, "t2 has storage 77 of 5"));
  CHECK(says([](Trace& t) { t.values[0].type.storage = kNoStorage; }, "x has storage -1 of 5"));
}

TEST_CASE("bodies") {
  CHECK(says([](Trace& t) { t.calls[1].body.pop_back(); }, "its body does not make t3"));
  CHECK(says([](Trace& t) { t.calls[1].body[0].args[0] = of(0); },
             "x is used in the body of a call that does not get it"));
  CHECK(says([](Trace& t) { t.calls[1].body[0].results[0] = of(2); }, "t2 is made twice"));
  CHECK(says([](Trace& t) { t.calls[1].body[1].results[0] = of(2); }, "its body does not make t3"));
  CHECK(says([](Trace& t) { t.calls[1].body[1].args[1] = of(99); }, "there is no value 99"));
}

TEST_CASE("regions") {
  auto append = [](Trace& t, const Call& call) { t.calls.push_back(call); };
  CHECK(says([&](Trace& t) { append(t, region_call("fusion0", {0}, {4}, {})); },
             "its body does not make t4"));
  CHECK(says([&](Trace& t) { append(t, region_call("", {0}, {0}, {})); }, "a region has no name"));
  CHECK(says(
      [&](Trace& t) {
        Call call = region_call("fusion0", {0}, {0}, {});
        call.args.push_back(literal(2));
        append(t, call);
      },
      "a region takes tensors alone"));
  CHECK(says(
      [&](Trace& t) {
        Call call = region_call("fusion0", {0}, {0}, {});
        call.results = {Arg::list({0})};
        append(t, call);
      },
      "a region gives tensors alone"));
  CHECK(says([&](Trace& t) { append(t, region_call("fusion0", {0}, {2}, {})); },
             "its body does not make t2"));
}

TEST_CASE("schemas") {
  CHECK(says([](Trace& t) { t.calls[0].args.pop_back(); }, "2 arguments where the schema has 3"));
  CHECK(says([](Trace& t) { t.calls[0].results.push_back(of(0)); },
             "2 results where the schema has 1"));
  CHECK(says([](Trace& t) { t.calls[0].args[0] = none(); },
             "argument self takes Tensor, not a constant of kind None"));
  CHECK(says([](Trace& t) { t.calls[0].args[1] = literal(2); },
             "argument other takes Tensor, not a constant of kind Int"));
  CHECK(says([](Trace& t) { t.calls[0].args[1] = literal(at::zeros({})); },
             "argument other takes Tensor, not a tensor that is no wrapped number"));
  CHECK(says([](Trace& t) { t.calls[0].args[2] = literal("a"); },
             "argument alpha takes number, not a constant of kind String"));
  CHECK(says([](Trace& t) { t.calls[0].args[1] = Arg::list({0}); }, "not a list of Tensor"));
  CHECK(says([](Trace& t) { t.calls[0].results[0] = Arg::list({2}); },
             "result 0 is Tensor, not a list of Tensor"));
  auto call = [](const char* name, const char* overload, std::vector<Arg> args) {
    return [=](Trace& t) {
      t.calls.push_back(make_call(find_op(name, overload), args, {of(add_value(t, f32({2})))}));
    };
  };
  CHECK(
      says(call("aten::softmax", "int", {of(0), literal(0.5), none()}), "argument dim takes int"));
  CHECK(says(call("aten::dropout", "", {of(0), literal(1), literal(true)}),
             "argument p takes float"));
  CHECK(says(call("aten::dropout", "", {of(0), literal(0.5), literal(1)}),
             "argument train takes bool"));
  CHECK(says(call("aten::view", "", {of(0), literal(c10::List<double>({1.0}))}),
             "argument size takes List[int]"));
  CHECK(says(call("aten::cat", "", {Arg::list({0, kNoValue}), literal(0)}),
             "argument tensors takes List[Tensor]"));
  CHECK(says(call("aten::index", "Tensor", {of(0), Arg::list({1})}),
             "argument indices takes List[Optional[Tensor]], not a list of Tensor"));
  CHECK(fault(call("aten::index", "Tensor", {of(0), Arg::list({kNoValue, 1}, true)})) == "");
  CHECK(fault(call("aten::softmax", "int", {of(0), literal(0), literal(7)})) == "");
}

TEST_CASE("writes before the epilogue") {
  auto write = [](ValueId id) {
    return [id](Trace& t) {
      t.calls.push_back(make_call(find_op("aten::sin_"), {of(id)}, {of(id)}));
      t.epilogue = 3;
    };
  };
  CHECK(says(write(0), "x is written before the epilogue, and an input has its memory"));
  CHECK(fault(write(2)) == "");
  CHECK(says(
      [&](Trace& t) {
        write(2)(t);
        t.values[2].type.storage = t.values[1].type.storage;
      },
      "t2 is written before the epilogue"));
  CHECK(fault([&](Trace& t) {
          write(0)(t);
          t.epilogue = 2;
        }) == "");
}

TEST_CASE("outputs") {
  CHECK(says([](Trace& t) { t.outputs.push_back(3); }, "output 1 is not in the tree of outputs"));
  CHECK(says([](Trace& t) { t.output_tree.leaf = 1; }, "the tree of outputs has leaf 1 of 1"));
  CHECK(says([](Trace& t) { t.output_tree.children.resize(1); }, "a leaf with children"));
  CHECK(says(
      [](Trace& t) {
        OutputTree dict;
        dict.kind = OutputTree::Kind::Dict;
        dict.children = {t.output_tree};
        t.output_tree = dict;
      },
      "0 keys for 1 values"));
}

TEST_CASE("numbers out of range") {
  CHECK(says([](Trace& t) { t.calls[0].source = 0; }, "there is no source line 0"));
  CHECK(says([](Trace& t) { t.calls[0].module = 3; }, "there is no module 3"));
  CHECK(says([](Trace& t) { t.epilogue = 5; }, "the epilogue begins at call 5 of 2"));
}

namespace {

// t4 = F(x), whose backward multiplies the gradient t5 by x.
void append_custom(Trace& trace, const std::function<void(CustomGradient&)>& damage) {
  std::vector<Call> body, backward;
  const ValueId made = add_call(trace, body, "aten::round", "", {of(0)}, f32({2, 2}));
  const ValueId gradient = add_value(trace, f32({2, 2}));
  const ValueId result =
      add_call(trace, backward, "aten::mul", "Tensor", {of(gradient), of(0)}, f32({2, 2}));
  Call call = region_call("F", {0}, {made}, std::move(body));
  CustomGradient all;
  all.differentiable = 1;
  all.saved = {0};
  all.cases.push_back({{true}, {gradient}, std::move(backward), {result}});
  damage(all);
  call.gradient = std::make_shared<const CustomGradient>(std::move(all));
  trace.calls.push_back(std::move(call));
}

bool custom_says(const std::function<void(CustomGradient&)>& damage, const std::string& expected) {
  return says([&](Trace& t) { append_custom(t, damage); }, expected);
}

}  // namespace

TEST_CASE("custom functions") {
  CHECK(fault([](Trace& t) { append_custom(t, [](CustomGradient&) {}); }) == "");
  CHECK(custom_says([](CustomGradient& g) { g.differentiable = 2; }, "differentiates 2 of 1"));
  CHECK(custom_says([](CustomGradient& g) { g.saved = {1}; }, "body of a call that does not get"));
  CHECK(custom_says([](CustomGradient& g) { g.cases[0].gradients.clear(); }, "0 gradients for 1"));
  CHECK(custom_says([](CustomGradient& g) { g.cases[0].results.clear(); }, "0 gradients of 1"));
  CHECK(custom_says([](CustomGradient& g) { g.cases[0].gradients = {kNoValue}; }, "before it is"));
  CHECK(says(
      [](Trace& t) {
        append_custom(t, [](CustomGradient&) {});
        set_outputs(t, {static_cast<ValueId>(t.values.size()) - 1});
      },
      "used outside"));
}
