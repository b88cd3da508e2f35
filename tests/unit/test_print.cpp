#include <doctest/doctest.h>
#include <torch/library.h>

#include "golden.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "trace_builder.h"

using namespace fulgurite;

namespace {

Arg of(ValueId id) { return Arg::of(id); }

// c = a + b; linear(c, w)
Trace captured() {
  Trace trace;
  const ValueId a = add_input(trace, "a", f32({2, 2}));
  const ValueId b = add_input(trace, "b", f32({2, 2}));
  const ValueId w = add_input(trace, "p_fc_weight", f32({2, 2}));
  trace.inputs[2] = {w, InputKind::Parameter, "model.fc.weight"};
  trace.sources = {{"/home/me/model.py", 12, "forward", "c = a + b"},
                   {"/home/me/model.py", 13, "forward", "d = self.fc(c)"}};
  const ValueId c = add_call(trace, "aten::add", "Tensor", {of(a), of(b), literal(1)}, f32({2, 2}));
  const ValueId d = add_call(trace, "aten::linear", "", {of(c), of(w), none()}, f32({2, 2}));
  trace.calls[0].source = 0;
  Call& linear = trace.calls[1];
  linear.source = 1;
  const ValueId wt = add_value(trace, strided(f32({2, 2}), {1, 2}));
  linear.body = {make_call(find_op("aten::t"), {of(w)}, {of(wt)}),
                 make_call(find_op("aten::mm"), {of(c), of(wt)}, {of(d)})};
  set_outputs(trace, {d});
  return trace;
}

// mul(a + b, b), fused and not
Trace fused() {
  Trace trace;
  const ValueId a = add_input(trace, "a", f32({2, 2}));
  const ValueId b = add_input(trace, "b", f32({2, 2}));
  std::vector<Call> body;
  const ValueId t2 =
      add_call(trace, body, "aten::add", "Tensor", {of(a), of(b), literal(1)}, f32({2, 2}));
  const ValueId t3 = add_call(trace, body, "aten::mul", "Tensor", {of(t2), of(b)}, f32({2, 2}));
  trace.calls.push_back(region_call("fusion0", {a, b}, {t2, t3}, std::move(body)));
  trace.calls.back().executor = "fused_cpu";
  trace.calls.back().frees = {a, b};
  const ValueId t4 = add_call(trace, "aten::mm", "", {of(t2), of(t3)}, f32({2, 2}));
  trace.calls.back().executor = "aten";
  trace.calls.back().frees = {t2};
  set_outputs(trace, {t3, t4});
  trace.provenance = "Delete Last Used";
  trace.milliseconds = 0.0312;
  return trace;
}

Trace modes() {
  Trace trace;
  trace.mode = GradMode::Grad;
  const ValueId x = add_input(trace, "x", f32({2}));
  trace.values[x].type.requires_grad = true;
  ValueId y = x;
  const std::pair<const char*, GradMode> calls[] = {{"aten::sin", GradMode::Grad},
                                                    {"aten::cos", GradMode::NoGrad},
                                                    {"aten::exp", GradMode::NoGrad},
                                                    {"aten::abs", GradMode::Inference},
                                                    {"aten::neg", GradMode::Grad}};
  for (auto [name, mode] : calls) {
    y = add_call(trace, name, "", {of(y)}, f32({2}));
    trace.calls.back().mode = mode;
    trace.values[y].type.requires_grad = y == 1;  // what comes out of no_grad() requires none
  }
  set_outputs(trace, {y});
  return trace;
}

// What results can look like: lists, undefined ones, arguments handed back, many.
Trace results() {
  Trace trace;
  const ValueId x = add_input(trace, "x", f32({2, 2}));
  std::vector<ValueId> parts = {add_value(trace, f32({2})), add_value(trace, f32({2}))};
  trace.calls.push_back(
      make_call(find_op("aten::unbind", "int"), {of(x), literal(0)}, {Arg::list(parts)}));
  const ValueId one = add_value(trace, f32({1, 2, 2}));
  trace.calls.push_back(make_call(find_op("aten::split", "Tensor"), {of(x), literal(5), literal(0)},
                                  {Arg::list({one})}));
  trace.calls.push_back(make_call(find_op("aten::add_", "Tensor"),
                                  {of(parts[0]), wrapped(2.5), literal(1)}, {of(parts[0])}));
  const ValueId values = add_value(trace, f32({2})), indices = add_value(trace, f32({2}));
  trace.values[indices].type.dtype = at::kLong;
  trace.calls.push_back(make_call(find_op("aten::max", "dim"), {of(x), literal(1), literal(false)},
                                  {of(values), of(indices)}));
  std::vector<ValueId> many;
  for (int i = 0; i < 4; ++i) many.push_back(add_value(trace, f32({2})));
  trace.calls.push_back(make_call(find_op("aten::_foreach_mul", "Scalar"),
                                  {Arg::list({parts[0], parts[1], values, values}), literal(2)},
                                  {Arg::list(many)}));
  trace.calls.push_back(
      make_call(find_op("aten::_foreach_neg_"), {Arg::list({many[0], many[1]})}, {}));
  Call t_ = make_call(find_op("aten::t_"), {of(x)}, {of(x)});
  t_.retyped = {{x, strided(trace.values[x].type, {1, 2})}};
  trace.calls.push_back(t_);
  set_outputs(trace, {parts[0], indices, many[3], x});
  return trace;
}

Trace epilogue() {
  Trace trace;
  const ValueId x = add_input(trace, "x", f32({2}));
  const ValueId y = add_call(trace, "aten::relu", "", {of(x)}, f32({2}));
  trace.calls.push_back(make_call(find_op("aten::copy_"), {of(x), of(y), literal(false)}, {of(x)}));
  trace.epilogue = 1;
  trace.outputs = {y, x};
  OutputTree leaf = flat_tree(1), other = leaf, constant, list, object;
  other.leaf = 1;
  constant.kind = OutputTree::Kind::Constant;
  constant.text = "\"mean\"";
  list.kind = OutputTree::Kind::List;
  list.children = {other, constant};
  object.kind = OutputTree::Kind::Object;
  object.text = "ModelOutput";
  object.keys = {"'logits'", "'state'"};
  object.children = {leaf, list};
  trace.output_tree.kind = OutputTree::Kind::Tuple;
  trace.output_tree.children = {object};
  return trace;
}

std::string returned(OutputTree tree) {
  Trace trace;
  trace.output_tree = std::move(tree);
  const std::string text = print(trace);
  return text.substr(text.find("  return"));
}

OutputTree node(OutputTree::Kind kind, std::string text, std::vector<OutputTree> children = {}) {
  OutputTree tree;
  tree.kind = kind;
  tree.text = std::move(text);
  tree.children = std::move(children);
  return tree;
}

Trace nothing() {
  Trace trace;
  set_outputs(trace, {});
  return trace;
}

std::string call_text(const char* name, const char* overload, std::vector<Arg> args) {
  Trace trace;
  add_input(trace, "x", f32({2, 3}));
  add_input(trace, "y", strided(f32({2, 3}), {1, 2}));
  return print_call(trace, make_call(find_op(name, overload), std::move(args), {}));
}

}  // namespace

TEST_CASE("programs") {
  const std::pair<const char*, Trace> programs[] = {
      {"captured", captured()}, {"fused", fused()},       {"modes", modes()},
      {"results", results()},   {"epilogue", epilogue()}, {"nothing", nothing()}};
  for (const auto& [name, trace] : programs) {
    verify(trace, "the test");
    check_golden(std::string(name) + ".txt", print(trace));
    check_golden(std::string(name) + ".explicit.txt", print(trace, {.explicit_calls = true}));
  }
  check_golden("captured.depth.txt", print(captured(), {.depth = 1}));
}

TEST_CASE("what is returned") {
  using Kind = OutputTree::Kind;
  const OutputTree one = node(Kind::Constant, "1"),
                   unwritten = node(Kind::Constant, "...  # Cache");
  CHECK(returned(one) == "  return 1\n");
  CHECK(returned(node(Kind::Tuple, "", {one})) == "  return (1,)\n");
  CHECK(returned(node(Kind::Tuple, "", {one, one})) == "  return 1, 1\n");
  CHECK(returned(node(Kind::List, "", {node(Kind::Tuple, "", {one, one})})) ==
        "  return [(1, 1)]\n");
  CHECK(returned(node(Kind::List, "")) == "  return []\n");
  OutputTree object = node(Kind::Object, "Output", {one, unwritten});
  object.keys = {"'a'", "'b'"};
  CHECK(returned(object) == "  return {'a': 1, 'b': ...}  # Output, Cache\n");
  CHECK(returned(node(Kind::Object, "return_types.max", {one, one})) ==
        "  return 1, 1  # return_types.max\n");
}

TEST_CASE("times are shown when asked for") {
  CHECK(print(fused()).find("# Constructed by Delete Last Used\n") == 0);
  CHECK(print(fused(), {.times = true})
            .find("# Constructed by Delete Last Used (took 0.031 milliseconds)\n") == 0);
  CHECK(print(captured(), {.times = true}).find("import torch\n") == 0);
}

TEST_CASE("types") {
  TensorType type = f32({2, 3});
  CHECK(print_type(type) == "cpu f32[2, 3]");
  CHECK(print_type(strided(type, {1, 2})) == "cpu f32[2, 3] strides (1, 2)");
  CHECK(print_type(strided(f32({3}), {2})) == "cpu f32[3] strides (2,)");
  CHECK(print_type(f32({})) == "cpu f32[]");
  type.requires_grad = true;
  CHECK(print_type(type) == "cpu f32[2, 3] grad");
  type.device = at::Device("cuda:1");
  type.requires_grad = false;
  type.conj = type.neg = true;
  const std::pair<at::ScalarType, const char*> names[] = {{at::kBFloat16, "bf16"},
                                                          {at::kHalf, "f16"},
                                                          {at::kDouble, "f64"},
                                                          {at::kLong, "i64"},
                                                          {at::kByte, "u8"},
                                                          {at::kBool, "b8"},
                                                          {at::kUInt16, "u16"},
                                                          {at::kChar, "i8"},
                                                          {at::kComplexFloat, "c64"},
                                                          {at::kComplexHalf, "c32"},
                                                          {at::kFloat8_e4m3fn, "f8_e4m3fn"}};
  for (auto [dtype, name] : names) {
    type.dtype = dtype;
    CHECK(print_type(type) == std::string("cuda:1 ") + name + "[2, 3] conj neg");
  }
}

TEST_CASE("calls are pretty only where the parser is certain to agree") {
  const Arg x = of(0), y = of(1);
  CHECK(call_text("aten::add", "Tensor", {x, y, literal(1)}) == "torch.add(x, y)");
  CHECK(call_text("aten::add", "Tensor", {x, wrapped(2), literal(2.5)}) ==
        "torch.add(x, 2, alpha=2.5)");
  CHECK(call_text("aten::add", "Scalar", {x, literal(2), literal(1)}) ==
        "torch.ops.aten.add.Scalar(x, 2)");
  CHECK(call_text("aten::add_", "Tensor", {x, y, literal(1)}) == "x.add_(y)");
  CHECK(call_text("aten::softmax", "int", {x, literal(-1), none()}) == "torch.softmax(x, -1)");
  CHECK(call_text("aten::softmax", "int", {x, literal(-1), literal(7)}) ==
        "torch.softmax(x, -1, torch.float64)");
  CHECK(call_text("aten::gelu", "", {x, literal("tanh")}) ==
        "torch.nn.functional.gelu(x, approximate=\"tanh\")");
  CHECK(call_text("aten::sum", "dim_IntList", {x, none(), literal(false), none()}) ==
        "torch.sum(x, None)");
  CHECK(call_text("aten::linalg_inv", "", {x}) == "torch.linalg.inv(x)");
  // contiguous() returns a contiguous tensor without asking the dispatcher.
  CHECK(call_text("aten::contiguous", "", {y, literal(0)}) == "y.contiguous()");
  CHECK(call_text("aten::contiguous", "", {x, literal(0)}) ==
        "torch.ops.aten.contiguous.default(x)");
  CHECK(call_text("aten::contiguous", "", {y, literal(2)}) ==
        "torch.ops.aten.contiguous.default(y, memory_format=torch.channels_last)");
  // Two optional bounds: with neither, the parser takes another overload.
  CHECK(call_text("aten::clamp", "", {x, literal(0), none()}) == "torch.clamp(x, 0)");
  CHECK(call_text("aten::clamp", "", {x, none(), literal(0)}) ==
        "torch.ops.aten.clamp.default(x, None, 0)");
  CHECK(call_text("aten::random_", "from", {x, literal(1), literal(5), none()}) ==
        "x.random_(1, 5)");
  CHECK(call_text("aten::to", "dtype", {x, literal(6), literal(false), literal(false), none()}) ==
        "torch.ops.aten.to.dtype(x, torch.float32)");
}

TEST_CASE("factories say where their results are") {
  const c10::IValue sizes = c10::List<int64_t>({2, 3});
  CHECK(call_text(
            "aten::zeros", "",
            {literal(sizes), literal(6), none(), literal(at::Device(at::kCPU)), literal(false)}) ==
        "torch.zeros([2, 3], dtype=torch.float32, device=\"cpu\", pin_memory=False)");
  CHECK(call_text("aten::zeros", "", {literal(sizes), none(), none(), none(), none()}) ==
        "torch.ops.aten.zeros.default([2, 3])");
}

TEST_CASE("names that Python keeps for itself") {
  torch::Library library(torch::Library::FRAGMENT, "fulgurite_test", std::nullopt, __FILE__,
                         __LINE__);
  library.def("nonlocal.from(Tensor x, *, int lambda, int async=0) -> Tensor");
  CHECK(call_text("fulgurite_test::nonlocal", "from", {of(0), literal(1), literal(2)}) ==
        "getattr(getattr(torch.ops.fulgurite_test, \"nonlocal\"), \"from\")"
        "(x, **{\"lambda\": 1}, **{\"async\": 2})");
}

TEST_CASE("the default generator is none") {
  const auto generator = at::globalContext().defaultGenerator(at::Device(at::kCPU));
  CHECK(call_text("aten::random_", "from", {of(0), literal(1), literal(5), literal(generator)}) ==
        "x.random_(1, 5)");
}

TEST_CASE("a generator of the program's own has no literal") {
  Trace trace;
  const ValueId x = add_input(trace, "x", f32({2}));
  const at::Generator generator =
      at::globalContext().defaultGenerator(at::Device(at::kCPU)).clone();
  add_call(trace, "aten::bernoulli", "", {of(x), literal(generator)}, f32({2}));
  set_outputs(trace, {1});
  CHECK(print(trace).find("t1 = torch.bernoulli(x, generator=None)  # t1: \"cpu f32[2]\"  "
                          "# note: generator: one of the program's own, written as None\n") !=
        std::string::npos);
}

TEST_CASE("numbers that Python cannot pass") {
  Trace trace;
  const ValueId x = add_input(trace, "x", f32({2}));
  add_call(trace, "aten::maximum", "", {of(x), wrapped(2)}, f32({2}));
  add_call(trace, "aten::mul", "Tensor", {of(x), wrapped(2)}, f32({2}));
  set_outputs(trace, {1, 2});
  CHECK(print(trace).find("  t1 = torch.ops.aten.maximum.default(x, 2)  # t1: \"cpu f32[2]\"  "
                          "# note: other: Python takes no number here\n"
                          "  t2 = torch.mul(x, 2)  # t2: \"cpu f32[2]\"\n") != std::string::npos);
}

TEST_CASE("a result has the type that the body leaves it with") {
  Trace trace = captured();
  Call transpose = make_call(find_op("aten::t_"), {of(4)}, {of(4)});
  transpose.retyped = {{4, strided(trace.values[4].type, {1, 2})}};
  trace.calls[1].body.push_back(transpose);
  CHECK(print(trace, {.depth = 1})
            .find("  t4 = torch.nn.functional.linear(t3, p_fc_weight)  "
                  "# t4: \"cpu f32[2, 2] strides (1, 2)\"\n"
                  "    # t5 = torch.t(p_fc_weight)  # t5: \"cpu f32[2, 2] strides (1, 2)\"\n"
                  "    # t4 = torch.mm(t3, t5)  # t4: \"cpu f32[2, 2]\"\n"
                  "    # t4.t_()  # t4: \"cpu f32[2, 2] strides (1, 2)\"\n") != std::string::npos);
}

TEST_CASE("comments stay on their line") {
  Trace trace = captured();
  trace.provenance = "a\nb";
  trace.inputs[2].path = "x\r\ny";
  trace.sources[0].code = "c = (a +\n b)";
  trace.calls[0].executor = "e\nf";
  const std::string text = print(trace);
  CHECK(text.find("# Constructed by a b\n") == 0);
  CHECK(text.find("  x  y\n") != std::string::npos);
  CHECK(text.find("c = (a +  b)\n") != std::string::npos);
  CHECK(text.find("# executor: e f\n") != std::string::npos);
}

TEST_CASE("autocast is off where it could act") {
  CHECK(print(captured()).find("@torch.no_grad()\n@torch.autocast(\"cpu\", enabled=False)\ndef") !=
        std::string::npos);
  CHECK(print(modes()).find("autocast") == std::string::npos);
}
