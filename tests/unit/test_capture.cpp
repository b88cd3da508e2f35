// Capture of C++ programs: no Python at all.
#include <doctest/doctest.h>
#include <torch/csrc/autograd/autograd.h>

#include "capture/replay.h"
#include "capture/tracer.h"

using namespace fulgurite;

namespace {

using Program = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

Captured capture(const Program& program, const std::vector<at::Tensor>& inputs) {
  Tracer tracer;
  std::vector<at::Tensor> traced, outputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    traced.push_back(tracer.input(inputs[i], "x" + std::to_string(i)));
  {
    Tracer::Listening listening(tracer);
    outputs = program(traced);
  }
  return tracer.finish(outputs, flat_tree(static_cast<int32_t>(outputs.size())));
}

std::vector<at::Tensor> run(const Captured& captured, std::vector<at::Tensor> inputs) {
  inputs.insert(inputs.end(), captured.lifted.begin(), captured.lifted.end());
  return replay(captured.trace, inputs);
}

}  // namespace

TEST_CASE("a small network is captured with its primitives inside, and replays to eager's bits") {
  const at::Tensor x = at::randn({2, 4}), w = at::randn({3, 4}), b = at::randn({3});
  const Program program = [&](const auto& in) {
    return std::vector{at::softmax(at::linear(in[0], w, b).relu(), -1)};
  };
  const Captured captured = capture(program, {x});
  REQUIRE(captured.trace.calls.size() == 3);
  CHECK(captured.trace.calls[0].op.name() == "aten::linear");
  CHECK(captured.trace.calls[0].body.size() == 2);
  CHECK(captured.trace.calls[1].op.name() == "aten::relu");
  CHECK(captured.trace.calls[1].body.empty());
  CHECK(captured.lifted.size() == 2);
  CHECK(captured.lifted[0].is_same(w));
  CHECK(at::equal(run(captured, {x})[0], program({x})[0]));
}
