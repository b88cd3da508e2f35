// Capture of C++ programs: no Python at all.
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <thread>

#include "capture/infer.h"
#include "capture/replay.h"
#include "capture/tracer.h"
#include "ir/verify.h"
#include "ops/facts.h"

#include <algorithm>

#include <doctest/doctest.h>  // last: torch has a CHECK of its own

using namespace fulgurite;

namespace {

using Tensors = std::vector<at::Tensor>;
using Program = std::function<Tensors(const Tensors&)>;

// What the program would be told of its input.
Captured capture(const Program& program, const Tensors& inputs) {
  Tracer tracer;
  Tensors traced, outputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    traced.push_back(tracer.input(inputs[i], "x" + std::to_string(i)));
  {
    Tracer::Listening listening(tracer);
    outputs = program(traced);
  }
  Captured captured = tracer.finish(outputs, flat_tree(static_cast<int32_t>(outputs.size())));
  verify(captured.trace, "");
  return captured;
}

Tensors run(const Captured& captured, Tensors inputs) {
  inputs.insert(inputs.end(), captured.lifted.begin(), captured.lifted.end());
  return replay(captured.trace, inputs);
}

std::vector<std::string> ops(const Trace& trace) {
  std::vector<std::string> names;
  for (const Call& call : trace.calls) names.push_back(call.op.name());
  return names;
}

const TensorType& output_type(const Trace& trace, size_t i) {
  return type_of(trace, trace.outputs.at(i));
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a small network is captured with its primitives inside, and replays to eager's bits") {
  const at::Tensor x = at::randn({2, 4}), w = at::randn({3, 4}), b = at::randn({3});
  const Program program = [&](const Tensors& in) {
    return Tensors{at::softmax(at::linear(in[0], w, b).relu(), -1)};
  };
  const Captured captured = capture(program, {x});
  CHECK((ops(captured.trace) == Names{"aten::linear", "aten::relu", "aten::softmax.int"}));
  CHECK(captured.trace.calls[0].body.size() == 2);
  CHECK(captured.trace.calls[1].body.empty());
  CHECK(captured.trace.calls[2].body.size() == 1);
  REQUIRE(captured.lifted.size() == 2);
  CHECK(captured.lifted[0].is_same(w));
  CHECK(captured.trace.inputs[0].kind == InputKind::Argument);
  CHECK(captured.trace.inputs[1].kind == InputKind::Constant);
  CHECK(at::equal(run(captured, {x})[0], program({x})[0]));
  CHECK(check_types(captured.trace, {x, w, b}) == "");
  CHECK(check_types(captured.trace, {x, w, b}, /*bodies=*/true) == "");
}

TEST_CASE("writes through views, and what they share, are recorded") {
  const Program program = [](const Tensors& in) {
    at::Tensor y = in[0].clone(), v = y.view({2, 2, 6}).select(0, 0).transpose(0, 1);
    v.zero_();
    y.t_();
    return Tensors{y, v};
  };
  const at::Tensor x = at::randn({4, 6});
  const Captured captured = capture(program, {x});
  CHECK(output_type(captured.trace, 0).storage == output_type(captured.trace, 1).storage);
  CHECK(output_type(captured.trace, 0).storage != type_of(captured.trace, 0).storage);
  REQUIRE(captured.trace.calls.back().retyped.size() == 1);
  CHECK((captured.trace.calls.back().retyped[0].type.sizes == Dims{6, 4}));
  const Tensors eager = program({x}), again = run(captured, {x});
  CHECK(at::equal(again[0], eager[0]));
  CHECK(again[0].strides() == eager[0].strides());
  CHECK(at::equal(again[1], eager[1]));
  CHECK(check_types(captured.trace, {x}) == "");
}

TEST_CASE("a backward pass inside of the program is part of the trace") {
  const at::Tensor x = at::randn({3, 4}).set_requires_grad(true), w = at::randn({2, 4});
  w.set_requires_grad(true);
  const Program program = [&](const Tensors& in) {
    const at::Tensor loss = at::linear(in[0], w).tanh().sum();
    CHECK(loss.requires_grad());
    return torch::autograd::grad({loss}, {in[0], w});
  };
  const Captured captured = capture(program, {x});
  CHECK(captured.trace.mode == GradMode::Grad);
  const Tensors eager = program({x}), again = run(captured, {x});
  CHECK(at::equal(again[0], eager[0]));
  CHECK(at::equal(again[1], eager[1]));
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("a call of which an inner value is used outside is opened") {
  const at::Tensor x = at::randn({3, 4}).set_requires_grad(true), w = at::randn({5, 4});
  const Captured captured = capture(
      [&](const Tensors& in) {
        const at::Tensor y = at::linear(in[0], w);
        return torch::autograd::grad({y.sum()}, {in[0]});
      },
      {x});
  // linear's inner w.t() is saved for its backward.
  CHECK(captured.trace.calls[0].op.name() != "aten::linear");
  // The first product is the forward's; those of the backward run without grad mode.
  const auto product =
      std::find_if(captured.trace.calls.begin(), captured.trace.calls.end(), [](const Call& call) {
        return call.op.name() == "aten::mm" || call.op.name() == "aten::addmm";
      });
  REQUIRE(product != captured.trace.calls.end());
  CHECK(product->mode == GradMode::Grad);
  CHECK(check_types(captured.trace, {x.detach(), w}) == "");
}

TEST_CASE("each call records the grad mode that it ran under") {
  const at::Tensor x = at::randn({3}).set_requires_grad(true);
  const Captured captured = capture(
      [](const Tensors& in) {
        at::Tensor y = in[0] * 2;
        at::Tensor z, i;
        {
          at::NoGradGuard no_grad;
          z = in[0] * 3;
        }
        {
          c10::InferenceMode inference;
          i = in[0] * 4;
        }
        CHECK(y.requires_grad());
        CHECK_FALSE(z.requires_grad());
        CHECK(i.is_inference());
        return Tensors{y, z, i};
      },
      {x});
  REQUIRE(captured.trace.calls.size() == 3);
  CHECK(captured.trace.calls[0].mode == GradMode::Grad);
  CHECK(captured.trace.calls[1].mode == GradMode::NoGrad);
  CHECK(captured.trace.calls[2].mode == GradMode::Inference);
  CHECK(output_type(captured.trace, 0).requires_grad);
  CHECK_FALSE(output_type(captured.trace, 1).requires_grad);
  const Tensors again = run(captured, {x});
  CHECK(again[0].requires_grad());
  CHECK_FALSE(again[1].requires_grad());
  CHECK(again[2].is_inference());
}

TEST_CASE("without anything to differentiate the trace runs under no_grad") {
  const Program program = [](const Tensors& in) { return Tensors{in[0] * 2}; };
  const at::Tensor x = at::randn({3});
  CHECK(capture(program, {x}).trace.mode == GradMode::NoGrad);
  {
    at::NoGradGuard no_grad;
    CHECK(capture(program, {x.clone().set_requires_grad(true)}).trace.mode == GradMode::NoGrad);
  }
  CHECK(capture(program, {x.clone().set_requires_grad(true)}).trace.mode == GradMode::Grad);
  c10::InferenceMode inference;
  CHECK(capture(program, {x}).trace.mode == GradMode::Inference);
}

TEST_CASE("random numbers are eager's for the same seed, and capture draws none") {
  const Program program = [](const Tensors& in) {
    return Tensors{at::dropout(in[0], 0.5, true) + at::rand({8}), at::randperm(5)};
  };
  const at::Tensor x = at::randn({8});
  at::manual_seed(3);
  const Tensors eager = program({x});
  at::manual_seed(3);
  const Captured captured = capture(program, {x});
  const Tensors again = run(captured, {x});
  CHECK(at::equal(again[0], eager[0]));
  CHECK(at::equal(again[1], eager[1]));
}

TEST_CASE("the state of the generator is read and set by operators, in order") {
  const auto op = [](const char* name) { return find_op(name); };
  const Program program = [&](const Tensors&) {
    const at::Tensor before = op("fulgurite::get_rng_state")
                                  .typed<at::Tensor(const std::optional<at::Generator>&)>()
                                  .call(std::nullopt);
    const at::Tensor a = at::rand({3});
    op("fulgurite::set_rng_state")
        .typed<void(const at::Tensor&, const std::optional<at::Generator>&)>()
        .call(before, std::nullopt);
    return Tensors{a, at::rand({3}), before};
  };
  const Captured captured = capture(program, {});
  CHECK(captured.trace.calls.size() == 4);
  for (const Call& call : captured.trace.calls) CHECK(has_effect(call));
  const Tensors again = run(captured, {});
  CHECK(at::equal(again[0], again[1]));
  CHECK(output_type(captured.trace, 2).sizes[0] == again[2].size(0));
  at::manual_seed(11);
  const at::Tensor wanted = at::rand({3});
  at::manual_seed(11);
  CHECK(at::equal(run(captured, {})[0], wanted));
}

TEST_CASE("an explicit generator stays in the trace") {
  at::Generator generator = at::detail::createCPUGenerator(5);
  const Captured captured =
      capture([&](const Tensors& in) { return Tensors{in[0] + at::rand({3}, generator)}; },
              {at::zeros({3})});
  const at::Tensor wanted = at::rand({3}, at::detail::createCPUGenerator(5));
  CHECK(at::equal(run(captured, {at::zeros({3})})[0], wanted));
}

TEST_CASE("inputs that share memory share it in the trace, and with what is lifted") {
  const at::Tensor base = at::randn({6}), a = base.slice(0, 0, 4), b = base.slice(0, 2, 6);
  const Captured captured = capture(
      [&](const Tensors& in) {
        CHECK(in[0].is_same(in[2]));
        in[0].add_(1);
        return Tensors{in[1] * 2, base + 0};
      },
      {a, b, a});
  const Trace& trace = captured.trace;
  REQUIRE(trace.inputs.size() == 3);
  CHECK(type_of(trace, trace.inputs[0].id).storage == type_of(trace, trace.inputs[1].id).storage);
  CHECK(type_of(trace, trace.inputs[0].id).storage == type_of(trace, trace.inputs[2].id).storage);
  CHECK(type_of(trace, trace.inputs[1].id).offset == 2);
}

TEST_CASE("inputs from types") {
  Tracer tracer;
  TensorType type;
  type.sizes = {2, 3};
  type.strides = {1, 2};
  type.nbytes = 24;
  type.storage = 7;
  type.requires_grad = true;
  TensorType other = type;
  other.requires_grad = false;
  const at::Tensor a = tracer.input(type, "a"), b = tracer.input(other, "b", InputKind::Parameter);
  CHECK((a.strides() == at::IntArrayRef({1, 2})));
  CHECK(a.requires_grad());
  Tensors outputs;
  {
    Tracer::Listening listening(tracer);
    outputs = {a + b};
  }
  const Trace trace = tracer.finish(outputs, flat_tree(1)).trace;
  CHECK(type_of(trace, 0).storage == type_of(trace, 1).storage);
  CHECK((output_type(trace, 0).strides == Dims{1, 2}));
  CHECK(output_type(trace, 0).requires_grad);
  CHECK(trace.inputs[1].kind == InputKind::Parameter);
}

TEST_CASE("a real tensor that the program writes is as it was after the capture") {
  const at::Tensor x = at::randn({3}).set_requires_grad(true);
  at::Tensor b = at::zeros({2, 3});
  const at::Tensor row = b.select(0, 1);
  const auto version = b._version();
  const Captured captured = capture(
      [&](const Tensors& in) {
        b.select(0, 0).add_(in[0]);
        b.mul_(2);
        CHECK(b.requires_grad());
        return Tensors{b.sum()};
      },
      {x});
  CHECK(at::equal(b, at::zeros({2, 3})));
  CHECK(b._version() == version);
  CHECK_FALSE(b.requires_grad());
  CHECK_FALSE(b.grad_fn());
  CHECK_FALSE(row.requires_grad());
  CHECK_FALSE(row.grad_fn());
  b.add_(1);
  CHECK(at::equal(row, at::ones({3})));
  CHECK(output_type(captured.trace, 0).requires_grad);
}

TEST_CASE("gradients that backward() leaves in leaves are told, and real leaves keep their own") {
  const at::Tensor x = at::randn({3}).set_requires_grad(true);
  at::Tensor w = at::randn({3}).set_requires_grad(true), u = at::randn({3}).set_requires_grad(true);
  u.mutable_grad() = at::ones({3});
  Tracer tracer;
  const at::Tensor traced = tracer.input(x, "x");
  {
    Tracer::Listening listening(tracer);
    (traced * w * u).sum().backward();
    CHECK(w.grad().defined());
  }
  CHECK_FALSE(w.grad().defined());
  CHECK(at::equal(u.grad(), at::ones({3})));
  REQUIRE(tracer.grads().size() == 2);  // u's was written in place
  CHECK(tracer.grads()[0].leaf.is_same(w));
  CHECK(tracer.grads()[1].leaf.is_same(traced));
  const Captured captured =
      tracer.finish({tracer.grads()[0].grad, tracer.grads()[1].grad}, flat_tree(2));
  const Tensors again = run(captured, {x});
  CHECK(at::equal(again[0], (x * u).detach()));
  CHECK(at::equal(again[1], (w * u).detach()));
  CHECK(at::equal(u.grad(), (1 + x * w).detach()));
}

TEST_CASE("the data of real tensors can be read, and is told") {
  const at::Tensor x = at::randn({3}), flag = at::ones({1});
  const Captured captured =
      capture([&](const Tensors& in) { return Tensors{in[0] * flag.item<float>()}; }, {x});
  REQUIRE(captured.data_reads.size() == 1);
  CHECK(captured.data_reads[0].real.is_same(flag));
  CHECK(captured.data_reads[0].version == flag._version());
  CHECK(captured.lifted.empty());
}

TEST_CASE("a mask that is real becomes indices") {
  const at::Tensor x = at::randn({3, 2}), mask = at::tensor({1, 0, 1}).to(at::kBool);
  const Program program = [&](const Tensors& in) { return Tensors{in[0].index({mask})}; };
  const Captured captured = capture(program, {x});
  CHECK(captured.data_reads.size() == 1);
  CHECK((output_type(captured.trace, 0).sizes == Dims{2, 2}));
  CHECK(at::equal(run(captured, {x})[0], program({x})[0]));
}

TEST_CASE("tensors of C++ numbers are constants") {
  const Program program = [](const Tensors& in) {
    const at::Tensor floats = at::tensor({1.5, -2.0, 3.0}), count = at::tensor(7);
    const at::Tensor bytes = at::tensor(std::vector<uint8_t>{1, 2}, at::kByte);
    at::Tensor flags = at::empty({3}, at::kBool);
    for (int i = 0; i < 3; ++i) flags.data_ptr<bool>()[i] = i > 0;
    at::Tensor filled = at::empty({2, 2});
    for (int i = 0; i < 4; ++i) filled.data_ptr<float>()[i] = static_cast<float>(i);
    return Tensors{in[0] * floats,    in[0] + count,
                   bytes + 1,         at::where(flags, in[0], 0),
                   filled.t(),        torch::tensor({{1, 2}, {3, 4}}),
                   at::tensor({4, 5})};
  };
  const at::Tensor x = at::randn({3});
  const Captured captured = capture(program, {x});
  const Tensors eager = program({x});
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Tensors again = run(captured, {x});
    REQUIRE(again.size() == eager.size());
    for (size_t i = 0; i < eager.size(); ++i) {
      CHECK((again[i].scalar_type() == eager[i].scalar_type()));
      CHECK(at::equal(again[i], eager[i]));
    }
  }
}

TEST_CASE("memory that nobody filled is no constant, and is out of reach once it is used") {
  at::Tensor used;
  const Captured captured = capture(
      [&](const Tensors& in) {
        used = at::empty({3});
        used.copy_(in[0]);
        CHECK_THROWS(used.data_ptr<float>());
        at::Tensor unused = at::empty({8});
        return Tensors{used + 1};
      },
      {at::ones({3})});
  CHECK(captured.lifted.empty());
  CHECK_THROWS(used.data_ptr<float>());
}

TEST_CASE("a view of a normal tensor is normal in inference mode, a new tensor is not") {
  const at::Tensor x = at::randn({2, 3, 4}), w = at::randn({5, 4});
  const Program program = [&](const Tensors& in) {
    const at::Tensor y = in[0].transpose(0, 1);
    CHECK_FALSE(in[0].is_inference());
    CHECK_FALSE(y.is_inference());
    CHECK((in[0] + 1).is_inference());
    return Tensors{at::linear(y, w)};
  };
  c10::InferenceMode mode;
  const Captured captured = capture(program, {x});
  CHECK(at::equal(run(captured, {x})[0], program({x})[0]));
}

TEST_CASE("a result that its call reshapes in place has the shape that it has in the end") {
  const at::Tensor x = at::randn({2, 64}), window = at::hann_window(8);
  const Program program = [&](const Tensors& in) {
    return Tensors{at::stft(in[0], 8, 2, 8, window, false, true, true)};
  };
  const Captured captured = capture(program, {x});
  const Tensors eager = program({x});
  const TensorType& type = output_type(captured.trace, 0);
  CHECK(eager[0].sizes() == at::IntArrayRef(type.sizes));
  CHECK(eager[0].strides() == at::IntArrayRef(type.strides));
  CHECK(at::equal(run(captured, {x})[0], eager[0]));
  CHECK(check_types(captured.trace, {x, window}) == "");
  CHECK(check_types(captured.trace, {x, window}, /*bodies=*/true) == "");
}

TEST_CASE("copy_of gives memory of its own with the same layout") {
  const at::Tensor x = at::randn({4, 6}), w = at::randn({2}).set_requires_grad(true);
  const Captured captured = capture(
      [&](const Tensors& in) {
        const at::Tensor column = copy_of(in[0].slice(1, 2, 4)), leaf = copy_of(w);
        CHECK(column.storage_offset() == 2);
        CHECK(leaf.is_leaf());
        CHECK(leaf.requires_grad());
        CHECK_THROWS_AS(copy_of(leaf * 2), UserError);
        return Tensors{column.add_(1), leaf * 2};
      },
      {x});
  CHECK(output_type(captured.trace, 0).nbytes == 96);
  const Tensors again = run(captured, {x});
  CHECK(at::equal(again[0], x.slice(1, 2, 4) + 1));
  CHECK((again[0].strides() == at::IntArrayRef({6, 1})));
  CHECK(check_types(captured.trace, {x, w.detach()}) == "");
}

TEST_CASE("two threads may capture at once") {
  const at::Tensor w = at::randn({4, 4});
  const auto work = [&](Captured* captured) {
    *captured = capture(
        [&](const Tensors& in) {
          at::Tensor y = in[0];
          for (int i = 0; i < 50; ++i) y = at::linear(y, w).relu();
          return Tensors{y};
        },
        {at::ones({2, 4})});
  };
  Captured a, b;
  std::thread first(work, &a), second(work, &b);
  first.join();
  second.join();
  CHECK(same_program(a.trace, b.trace));
  CHECK(a.trace.calls.size() == 100);
}

TEST_CASE("emit infers results, views and what is handed back") {
  Trace trace;
  TensorType type;
  type.sizes = {2, 3};
  type.strides = {3, 1};
  type.nbytes = 24;
  const ValueId x = add_value(trace, type);
  trace.inputs.push_back({x, InputKind::Argument, ""});
  const ValueId t = emit1(trace, find_op("aten::t"), {Arg::of(x)});
  CHECK(type_of(trace, t).storage == type_of(trace, x).storage);
  CHECK((type_of(trace, t).strides == Dims{1, 3}));
  const ValueId sum =
      emit1(trace, find_op("aten::add", "Tensor"), {Arg::of(t), Arg::of(t), Arg::literal(1)});
  CHECK(type_of(trace, sum).storage != type_of(trace, x).storage);
  CHECK((type_of(trace, sum).strides == Dims{1, 3}));
  const Call& turned = emit(trace, find_op("aten::t_"), {Arg::of(sum)});
  CHECK(turned.results[0].values[0] == sum);
  REQUIRE(turned.retyped.size() == 1);
  CHECK((turned.retyped[0].type.sizes == Dims{2, 3}));
  CHECK_THROWS_AS(emit(trace, find_op("aten::t"), {}), InternalError);
  trace.outputs = {sum};
  trace.output_tree = flat_tree(1);
  verify(trace, "emit");
}
