#include <functional>

#include <doctest/doctest.h>

#include "ir/verify.h"
#include "trace_builder.h"

using namespace fulgurite;

namespace {

Arg of(ValueId id) { return Arg::of(id); }

// t2 = x + y; t3 = t2.t(), which shares its memory; t4 = softmax(t3)
Trace program() {
  Trace trace;
  const ValueId x = add_input(trace, "x", f32({2, 2})), y = add_input(trace, "y", f32({2, 2}));
  const ValueId z = add_call(trace, "aten::add", "Tensor", {of(x), of(y), literal(1)}, f32({2, 2}));
  TensorType transposed = strided(trace.values[z].type, {1, 2});
  const ValueId zt = add_call(trace, "aten::t", "", {of(z)}, transposed);
  add_call(trace, "aten::softmax", "int", {of(zt), literal(-1), none()}, f32({2, 2}));
  set_outputs(trace, {zt, 4});
  return trace;
}

std::string after(const std::function<void(Trace&)>& change) {
  Trace other = program();
  change(other);
  const std::string found = difference(program(), other);
  CHECK(difference(other, program()).empty() == found.empty());
  return found;
}

bool says(const std::function<void(Trace&)>& change, const std::string& expected) {
  const std::string text = after(change);
  const bool found = !expected.empty() && text.find(expected) != std::string::npos;
  if (!found) MESSAGE("it says: " << text);
  return found;
}

}  // namespace

TEST_CASE("what does not make another program") {
  CHECK(after([](Trace&) {}) == "");
  CHECK(after([](Trace& t) {
          t.name = "other";
          t.provenance = "Some Pass";
          t.values[0].name = "z";
          t.inputs[1] = {1, InputKind::Parameter, "fc"};
          t.sources.push_back({});
          t.calls[0].source = 0;
          t.calls[0].executor = "aten";
          t.calls[1].frees = {2};
          t.calls[2].body = {t.calls[1]};
          t.epilogue = 3;
        }) == "");
  CHECK(after([](Trace& t) { t.values[2].type.requires_grad = true; }) == "");
  CHECK(after([](Trace& t) {  // other numbers: one more value, which nothing uses
          t.values.insert(t.values.begin() + 2, t.values[2]);
          for (Call& call : t.calls)
            for (std::vector<Arg>* args : {&call.args, &call.results})
              for (Arg& arg : *args)
                for (ValueId& id : arg.values)
                  if (id >= 2) ++id;
          for (ValueId& id : t.outputs) ++id;
        }) == "");
  CHECK(after([](Trace& t) {  // other storages, shared by the same values
          for (Value& value : t.values) value.type.storage += 10;
        }) == "");
}

TEST_CASE("a region stands for its calls") {
  CHECK(after([](Trace& t) {
          std::vector<Call> body(t.calls.begin(), t.calls.begin() + 2);
          t.calls.erase(t.calls.begin(), t.calls.begin() + 2);
          t.calls.insert(t.calls.begin(), region_call("fusion0", {0, 1}, {3}, std::move(body)));
        }) == "");
}

TEST_CASE("what does") {
  CHECK(says([](Trace& t) { t.mode = GradMode::Grad; }, "the grad mode"));
  CHECK(says([](Trace& t) { t.calls[1].mode = GradMode::Grad; }, "call 1: the grad mode"));
  CHECK(says([](Trace& t) { t.inputs.pop_back(); }, "2 inputs and 1"));
  CHECK(says([](Trace& t) { t.calls[0].op = find_op("aten::sub", "Tensor"); },
             "call 0: aten::add.Tensor and aten::sub.Tensor\n  t2 = torch.add(x, y)\n"
             "  t2 = torch.sub(x, y)"));
  CHECK(says([](Trace& t) { t.calls[0].op = find_op("aten::add", "Scalar"); }, "aten::add.Scalar"));
  CHECK(says([](Trace& t) { t.calls[0].args[2] = literal(1.0); }, "call 0: argument alpha"));
  CHECK(says([](Trace& t) { t.calls[0].args[1] = of(0); }, "call 0: argument other"));
  CHECK(says([](Trace& t) { t.calls[0].args[1] = wrapped(1); }, "call 0: argument other"));
  CHECK(says([](Trace& t) { std::swap(t.calls[0].args[0], t.calls[0].args[1]); }, "argument self"));
  CHECK(says([](Trace& t) { t.calls.pop_back(); },
             "3 calls and 2; the first that is alone:\n  t4 = torch.softmax(t3, -1)"));
  CHECK(says([](Trace& t) { t.values[4].type.dtype = at::kDouble; },
             "call 2: result 0: \"cpu f32[2, 2]\" and \"cpu f64[2, 2]\""));
  CHECK(says([](Trace& t) { t.values[1].type.sizes[0] = 3; }, "input 1: "));
  CHECK(says([](Trace& t) { t.values[4].type.strides[0] = 7; }, "strides (7, 1)"));
  CHECK(says([](Trace& t) { t.values[4].type.offset = 7; }, "offset 0 and 7"));
  CHECK(says([](Trace& t) { t.values[4].type.requires_grad = true; },
             "output 1: whether it requires grad"));
  CHECK(says([](Trace& t) { t.values[1].type.requires_grad = true; },
             "input 1: whether it requires grad"));
  CHECK(says([](Trace& t) { t.values[4].type.conj = true; }, "conj"));
  CHECK(says([](Trace& t) { t.values[3].type.storage = 9; }, "which values share its memory"));
  CHECK(says([](Trace& t) { t.values[4].type.storage = t.values[0].type.storage; },
             "which values share its memory"));
  CHECK(says([](Trace& t) { t.calls[2].results[0] = of(3); }, "which of the values it is"));
  CHECK(says([](Trace& t) { t.calls[2].results[0] = none(); }, "result 0: another kind"));
  CHECK(says([](Trace& t) { t.calls[1].retyped = {{2, t.values[2].type}}; },
             "the number of values it gives another geometry"));
}

TEST_CASE("outputs are part of the program") {
  CHECK(says([](Trace& t) { t.outputs.pop_back(); }, "2 outputs and 1"));
  CHECK(says([](Trace& t) { std::swap(t.outputs[0], t.outputs[1]); },
             "output 0: which of the values it is"));
  CHECK(says([](Trace& t) { t.output_tree.kind = OutputTree::Kind::List; },
             "the outputs' structure: <0>, <1> and [<0>, <1>]"));
  CHECK(says([](Trace& t) { t.output_tree.children.pop_back(); }, "structure"));
}

TEST_CASE("an object is the dict that it is printed as") {
  Trace object = program(), dict = program();
  object.output_tree.kind = OutputTree::Kind::Object;
  object.output_tree.text = "ModelOutput";
  object.output_tree.keys = {"'a'", "'b'"};
  dict.output_tree.kind = OutputTree::Kind::Dict;
  dict.output_tree.keys = object.output_tree.keys;
  CHECK(difference(object, dict) == "");
}
