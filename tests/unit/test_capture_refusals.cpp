// What capture refuses, and in which state it leaves the thread.
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <thread>

#include "capture/replay.h"
#include "capture/tracer.h"

#include <doctest/doctest.h>  // last: torch has a CHECK of its own

using namespace fulgurite;

namespace {

using Tensors = std::vector<at::Tensor>;

bool mentions(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// The text of the refusal; "" if the program is not refused.
template <class F>
std::string refusal(F&& program) {
  Tracer tracer;
  const at::Tensor x = tracer.input(at::randn({2, 3}), "x");
  try {
    Tracer::Listening listening(tracer);
    program(x);
  } catch (const Unsupported& error) {
    return error.what();
  }
  return "";
}

struct ThreadState {
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  bool autocast_cache = at::autocast::is_autocast_cache_enabled();
  bool operator==(const ThreadState& other) const {
    return keys.included_ == other.keys.included_ && keys.excluded_ == other.keys.excluded_ &&
           autocast_cache == other.autocast_cache && !Tracer::active();
  }
};

}  // namespace

TEST_CASE("reads of traced data are refused, with what to do instead") {
  const std::string text = refusal([](const at::Tensor& x) { return x.sum().item<float>(); });
  CHECK(mentions(text, "aten::item needs the data"));
  CHECK(mentions(text, "f64[]"));  // a number, as Python has them
  CHECK(mentions(text, "torch.where"));
  CHECK(mentions(refusal([](const at::Tensor& x) { return at::nonzero(x); }), "aten::nonzero"));
  CHECK(mentions(refusal([](const at::Tensor& x) { return x.index({x > 0}); }), "aten::index"));
  CHECK(mentions(refusal([](const at::Tensor& x) { return at::equal(x, x); }), "aten::equal"));
  CHECK(mentions(refusal([](const at::Tensor& x) { return at::masked_select(x, x > 0); }),
                 "aten::masked_select"));
  CHECK(mentions(refusal([](const at::Tensor& x) { return at::_unique2(x); }), "unique"));
  CHECK(refusal([](const at::Tensor& x) { return x.masked_fill(x > 0, 1); }) == "");
}

TEST_CASE("data that the program has written is refused, though memory is there") {
  at::Tensor counter = at::zeros({1});
  const std::string text = refusal([&](const at::Tensor&) {
    counter.add_(1);
    return counter.item<int64_t>();
  });
  CHECK(mentions(text, "needs the data"));
  CHECK(counter.item<float>() == 0);
  Tracer tracer;
  {
    Tracer::Listening listening(tracer);
    tracer.read_data(counter, "numpy()");
    counter.select(0, 0).add_(1);
    CHECK(tracer.has_written(counter));
    CHECK_THROWS_AS(tracer.read_data(counter, "numpy()"), Unsupported);
  }
  CHECK_THROWS_AS(tracer.finish({}, OutputTree()), Unsupported);
}

TEST_CASE("a refusal that the program swallows is told by finish") {
  Tracer tracer;
  const at::Tensor x = tracer.input(at::randn({3}), "x");
  {
    Tracer::Listening listening(tracer);
    try {
      x.sum().item<float>();
    } catch (const std::exception&) {
    }
  }
  CHECK_THROWS_AS(tracer.finish({x}, flat_tree(1)), Unsupported);
}

TEST_CASE("a composite operator whose result does not depend on the data it asks for is captured") {
  Tracer tracer;
  const at::Tensor x = tracer.input(at::tensor({0, 2, 1}, at::kLong), "x");
  Tensors outputs;
  {
    Tracer::Listening listening(tracer);
    outputs = {at::one_hot(x, 3)};
    CHECK_THROWS_AS(at::one_hot(x, -1), Unsupported);
  }
  CHECK((outputs[0].sizes() == at::IntArrayRef({3, 3})));
}

TEST_CASE("tensors of other kinds are refused") {
  const std::string sparse =
      refusal([](const at::Tensor& x) { return x + at::eye(3).to_sparse().to_dense(); });
  CHECK(mentions(sparse, "aten::_to_sparse"));
  const at::Tensor real = at::eye(3).to_sparse();
  CHECK(mentions(refusal([&](const at::Tensor& x) { return at::matmul(real, x.t()); }),
                 "layout Sparse"));
  const at::Tensor quantized = at::quantize_per_tensor(at::ones({3}), 0.1, 0, at::kQInt8);
  CHECK(mentions(refusal([&](const at::Tensor&) { return quantized.clone(); }), "quantized"));
}

TEST_CASE("errors of the program are eager's, and no refusals") {
  Tracer tracer;
  const at::Tensor x = tracer.input(at::randn({2, 3}), "x");
  Tensors outputs;
  {
    Tracer::Listening listening(tracer);
    CHECK_THROWS_AS(at::matmul(x, x), c10::Error);
    CHECK_THROWS_AS(x.select(0, 5), c10::IndexError);
    CHECK_THROWS_AS(x.view({7}), c10::Error);
    outputs = {x * 2};
  }
  CHECK(tracer.finish(outputs, flat_tree(1)).trace.calls.size() == 1);
}

TEST_CASE("tensors must be on one device, as in eager") {
  Tracer tracer;
  TensorType type;
  type.sizes = {3};
  type.strides = {1};
  type.nbytes = 12;
  type.device = c10::Device(c10::kCUDA, 0);
  const at::Tensor x = tracer.input(type, "x");
  CHECK(x.is_cuda());
  const at::Tensor cpu = at::ones({3}), scalar = at::scalar_tensor(2.0);
  const at::Tensor index = at::tensor({0, 1});
  Tracer::Listening listening(tracer);
  CHECK_THROWS_WITH_AS(x + cpu, doctest::Contains("same device"), c10::Error);
  CHECK((x + scalar).device() == type.device);
  CHECK((x * 2).device() == type.device);
  CHECK(x.index({index}).device() == type.device);
  CHECK(x.to(at::kCPU).is_cpu());
  CHECK(x.cpu().copy_(x).is_cpu());
  CHECK(at::ones_like(x).device() == type.device);
}

TEST_CASE("nothing of a capture is left on the thread") {
  const ThreadState before;
  SUBCASE("after one that ends well") {
    CHECK(refusal([](const at::Tensor& x) { return x * 2; }) == "");
  }
  SUBCASE("after one that is refused") {
    CHECK(refusal([](const at::Tensor& x) { return x.sum().item<float>(); }) != "");
  }
  SUBCASE("after an error in the program") {
    const auto failing = [](const at::Tensor& x) -> at::Tensor {
      at::linear(x, x.t());
      throw std::runtime_error("the program's own");
    };
    CHECK_THROWS_AS(refusal(failing), c10::Error);
  }
  SUBCASE("after an attempt to capture inside of a capture") {
    Tracer outer, inner;
    {
      Tracer::Listening listening(outer);
      CHECK_THROWS_AS(Tracer::Listening nested(inner), UserError);
      CHECK(Tracer::active() == &outer);
    }
  }
  CHECK(ThreadState() == before);
  CHECK(at::equal(at::ones({2}) + 1, at::full({2}, 2.0)));
}

TEST_CASE("a trace tensor is of no use after its capture, elsewhere, or in another capture") {
  Tracer tracer;
  const at::Tensor x = tracer.input(at::randn({2}), "x");
  at::Tensor kept;
  {
    Tracer::Listening listening(tracer);
    kept = x * 2;
    bool refused = false;
    std::thread([&] {
      try {
        kept + 1;
      } catch (const Unsupported& error) {
        refused = mentions(error.what(), "another thread");
      }
    }).join();
    CHECK(refused);
  }
  CHECK_THROWS_WITH_AS(kept + 1, doctest::Contains("has ended"), Unsupported);
  CHECK_THROWS_AS(kept.item<float>(), Unsupported);
  CHECK_THROWS(kept.data_ptr<float>());
  Tracer other;
  {
    Tracer::Listening listening(other);
    CHECK_THROWS_WITH_AS(kept + 1, doctest::Contains("another capture"), Unsupported);
  }
}

TEST_CASE("shape and memory of a real tensor are not changed in place") {
  at::Tensor b = at::zeros({2, 3});
  CHECK(mentions(refusal([&](const at::Tensor&) { return b.t_(); }), "shape or the memory"));
  CHECK(mentions(refusal([&](const at::Tensor&) { return b.resize_({4, 4}); }), "shape"));
  CHECK((b.sizes() == at::IntArrayRef({2, 3})));
}

TEST_CASE("backward into the graph that an argument came from is refused") {
  const at::Tensor leaf = at::randn({3}).set_requires_grad(true), x = leaf * 2;
  Tracer tracer;
  const at::Tensor traced = tracer.input(x, "x");
  CHECK_FALSE(traced.is_leaf());
  CHECK(traced.requires_grad());
  Tracer::Listening listening(tracer);
  const at::Tensor y = (traced * 2).sum();
  CHECK(torch::autograd::grad({y}, {traced}, {}, /*retain_graph=*/true).size() == 1);
  CHECK_THROWS_AS(y.backward(), Unsupported);
}

TEST_CASE("the hooks of a language say where the program is and raise its errors") {
  struct Raised {
    std::string text;
  };
  static const int code = 0, module = 0;
  LanguageHooks hooks;
  hooks.place = [](LanguageHooks::Place& place) {
    place = {&code, 3, &module};
    return true;
  };
  hooks.source = [](const LanguageHooks::Place& place) {
    return SourceLine{"model.py", 10 + place.instruction, "forward", "y = x * 2"};
  };
  hooks.module_path = [](const LanguageHooks::Place&) { return std::string("layers.0"); };
  hooks.raise = [](const Unsupported& error) { throw Raised{error.what()}; };
  set_language_hooks(hooks);
  struct Reset {
    ~Reset() { set_language_hooks({}); }
  } reset;
  Tracer tracer;
  const at::Tensor x = tracer.input(at::randn({3}), "x");
  Tensors outputs;
  {
    Tracer::Listening listening(tracer);
    outputs = {x * 2 + 1};
    try {
      tracer.refuse("it does something", "do something else");
    } catch (const Raised& raised) {
      CHECK(raised.text ==
            "it does something\n  at model.py:13 in forward: y = x * 2\n  instead: do something "
            "else");
    }
  }
  CHECK_THROWS_AS(tracer.finish(outputs, flat_tree(1)), Raised);
  Tracer good;
  const at::Tensor z = good.input(at::randn({3}), "z");
  {
    Tracer::Listening listening(good);
    outputs = {z * 2 + 1};
  }
  const Trace trace = good.finish(outputs, flat_tree(1)).trace;
  REQUIRE(trace.sources.size() == 1);
  CHECK(trace.sources[0].line == 13);
  CHECK((trace.modules == std::vector<std::string>{"layers.0"}));
  CHECK(trace.calls[1].source == 0);
  CHECK(trace.calls[1].module == 0);
}

namespace {

// Whose gradient no operator has.
struct Tripled : torch::autograd::Function<Tripled> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.round();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 3};
  }
};

std::string refusal_of_tripled(bool used) {
  Tracer tracer;
  at::Tensor leaf = at::randn({3});
  leaf.set_requires_grad(true);
  const at::Tensor x = tracer.input(leaf, "x");
  at::Tensor y;
  try {
    {
      Tracer::Listening listening(tracer);
      y = Tripled::apply(x * 2);
      if (used) y = y + 1;
    }
    tracer.finish({y}, flat_tree(1));
  } catch (const Unsupported& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an autograd function written in C++ is refused where its gradient counts") {
  CHECK(mentions(refusal_of_tripled(true), "torch::autograd::Function written in C++"));
  CHECK(mentions(refusal_of_tripled(false), "torch::autograd::Function written in C++"));
  const at::NoGradGuard no_grad;
  CHECK(refusal_of_tripled(true) == "");
}
