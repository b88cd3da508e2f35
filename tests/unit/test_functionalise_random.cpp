// Random programs of views and writes: functionalised, they do what eager does, to the bit.
#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include <random>

#include "capture/replay.h"
#include "capture/tracer.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "passes/passes.h"

using namespace fulgurite;

namespace {

// A program is drawn while it runs: its choices depend on the seed and on geometry alone, so that
// it makes the same ones on tensors and on trace tensors.
class Program {
 public:
  Program(uint64_t seed, std::vector<at::Tensor> inputs)
      : random_(seed), inputs_(inputs.size()), pool_(std::move(inputs)) {}

  std::vector<at::Tensor> run() {
    const int64_t steps = 4 + below(16);
    for (int64_t i = 0; i < steps; ++i) step();
    std::vector<at::Tensor> outputs;
    for (int64_t i = 0, n = 1 + below(4); i < n; ++i) outputs.push_back(any());
    return outputs;
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  at::Tensor any() { return pool_[below(static_cast<int64_t>(pool_.size()))]; }

  void step() {
    const int64_t choice = below(10);
    if (choice < 4) {
      pool_.push_back(view(any()));
    } else if (choice < 8) {
      write(any());
    } else if (choice < 9) {
      pool_.push_back(compute(any()));
    } else {
      reshape(below(static_cast<int64_t>(pool_.size())));
    }
  }

  at::Tensor view(const at::Tensor& t) {
    if (t.dim() == 0) return t.unsqueeze(0);
    const int64_t dim = below(t.dim()), size = t.size(dim);
    switch (below(14)) {
      case 0:
        return size ? t.select(dim, below(size)) : t.detach();
      case 1:
        return t.slice(dim, below(size + 1), size, 1 + below(3));
      case 2:
        return t.transpose(dim, below(t.dim()));
      case 3:
        return t.unsqueeze(below(t.dim() + 1));
      case 4:
        return t.is_contiguous() ? t.view({-1}) : t.squeeze();
      case 5:
        return size > 0 && size % 2 == 0 ? t.unflatten(dim, {2, size / 2}) : t.alias();
      case 6:
        return size ? t.split((size + 1) / 2, dim).back() : t.detach();
      case 7:
        return size ? t.unbind(dim)[below(size)] : t.detach();
      case 8:
        return t.dim() >= 2 ? t.diagonal(0, 0, 1) : t.flip(0);
      case 9:
        return t.unsqueeze(0).expand(expanded(t));
      case 10:
        return size >= 2 ? t.unfold(dim, 2, 1 + below(2)) : t.detach();
      case 11:
        return t.scalar_type() == at::kInt ? t.view(at::kFloat) : t.view(at::kInt);
      case 12:
        return t.reshape({-1});
      default:
        return strided(t);
    }
  }

  std::vector<int64_t> expanded(const at::Tensor& t) {
    std::vector<int64_t> sizes{2};
    sizes.insert(sizes.end(), t.sizes().begin(), t.sizes().end());
    return sizes;
  }

  at::Tensor strided(const at::Tensor& t) {
    const int64_t room = static_cast<int64_t>(t.storage().nbytes()) / 4;
    if (room < 4) return t.detach();
    const int64_t rows = 1 + below(2), columns = 1 + below(2), offset = below(room - 3);
    return t.as_strided({rows, columns}, {columns, 1}, offset);
  }

  // Writes through tensors whose elements share memory are errors in eager mode.
  static bool is_writable(const at::Tensor& t) {
    std::vector<std::pair<int64_t, int64_t>> dims;
    for (int64_t i = 0; i < t.dim(); ++i)
      if (t.size(i) > 1) dims.emplace_back(t.stride(i), t.size(i));
    std::sort(dims.begin(), dims.end());
    int64_t extent = 1;
    for (auto [stride, size] : dims) {
      if (stride < extent) return false;
      extent = stride * size;
    }
    return true;
  }

  // A value of this dtype that shares no memory with anything written.
  at::Tensor operand(const at::Tensor& like) {
    const at::Tensor t = any();
    return t.clone().to(like.scalar_type()).sum().remainder(7);
  }

  void write(at::Tensor t) {
    if (!is_writable(t)) return;
    switch (below(13)) {
      case 0:
        t.add_(1);
        return;
      case 1:
        t.mul_(2);
        return;
      case 2:
        t.fill_(below(9));
        return;
      case 3:
        t.zero_();
        return;
      case 4:
        t.copy_(operand(t));
        return;
      case 5:
        t.add_(operand(t));
        return;
      case 6:
        if (t.dim()) t.cumsum_(below(t.dim()));
        return;
      case 7:
        at::add_out(t, t.clone(), operand(t));
        return;
      case 8:
        t.masked_fill_(t.clone().remainder(2).eq(0), 3);
        return;
      case 9:
        at::_foreach_add_({t}, 1);
        return;
      case 10:
        t.copy_(t.clone().flip(0 < t.dim() ? at::IntArrayRef({0}) : at::IntArrayRef({})));
        return;
      case 11:
        if (t.scalar_type() == at::kFloat) t.uniform_();
        return;
      case 12:
        if (t.dim() == 2) t.fill_diagonal_(5);
        return;
    }
  }

  at::Tensor compute(const at::Tensor& t) {
    switch (below(5)) {
      case 0:
        return t + 1;
      case 1:
        return t.contiguous();
      case 2:
        return t.clone();
      case 3:
        return at::zeros_like(t);
      default:
        return t.dim() ? at::cat({t, t}) : t * 2;
    }
  }

  // Changes the geometry of a tensor of the program's own in place.
  void reshape(int64_t i) {
    at::Tensor t = pool_[i];
    if (i < inputs_ || t.dim() == 0) return;
    switch (below(5)) {
      case 0:
        t.transpose_(below(t.dim()), below(t.dim()));
        return;
      case 1:
        t.unsqueeze_(below(t.dim() + 1));
        return;
      case 2:
        if (t.is_contiguous() && t.numel()) t.resize_({t.numel() - 1});
        return;
      case 3: {
        at::Tensor other = any();
        if (other.scalar_type() == t.scalar_type()) t.set_(other);
        return;
      }
      case 4: {
        const int64_t n = t.numel();
        if (!is_writable(t)) return;
        t.resize_({n + 2});
        t.slice(0, n, n + 2).zero_();
        return;
      }
    }
  }

  std::mt19937_64 random_;
  const int64_t inputs_;
  std::vector<at::Tensor> pool_;
};

// Two over one storage with a gap, one on its own, one a slice, one whose rows share memory.
std::vector<at::Tensor> make_inputs(bool overlapping) {
  const at::Tensor shared = at::arange(12, at::kFloat);
  const at::Tensor large = at::arange(30, at::kFloat).view({5, 6});
  std::vector<at::Tensor> inputs{shared.slice(0, 0, 8), shared.slice(0, 4, 12).view({2, 4}),
                                 at::arange(24, at::kFloat).view({4, 6}),
                                 large.slice(0, 1, 4).slice(1, 2, 5)};
  if (overlapping) inputs.push_back(at::arange(3, at::kFloat).expand({2, 3}));
  return inputs;
}

// Which tensors share a storage, and where in it they lie.
std::string relation(const std::vector<at::Tensor>& tensors) {
  std::map<const void*, size_t> seen;
  std::string text;
  for (const at::Tensor& t : tensors) {
    const size_t group =
        seen.try_emplace(t.storage().unsafeGetStorageImpl(), seen.size()).first->second;
    const bool shared = std::count_if(tensors.begin(), tensors.end(), [&](const at::Tensor& o) {
                          return !o.is_same(t) && o.storage().is_alias_of(t.storage());
                        }) > 0;
    text += fmt::format("{}@{} {} [{}] [{}]; ", group, shared ? t.storage_offset() : 0,
                        c10::toString(t.scalar_type()), fmt::join(t.sizes(), ","),
                        fmt::join(t.strides(), ","));
  }
  return text;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const auto bytes = [](const at::Tensor& t) {
    return t.clone(at::MemoryFormat::Contiguous).flatten().view(at::kByte);
  };
  return a.numel() == 0 || at::equal(bytes(a), bytes(b));
}

Captured capture(uint64_t seed, const std::vector<at::Tensor>& inputs) {
  Tracer tracer;
  std::vector<at::Tensor> traced, outputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    traced.push_back(tracer.input(inputs[i], "x" + std::to_string(i)));
  {
    Tracer::Listening listening(tracer);
    outputs = Program(seed, traced).run();
  }
  return tracer.finish(outputs, flat_tree(static_cast<int32_t>(outputs.size())));
}

struct Outcome {
  std::vector<at::Tensor> inputs, outputs;
  std::string aliasing() const {
    std::vector<at::Tensor> all = inputs;
    all.insert(all.end(), outputs.begin(), outputs.end());
    return relation(all);
  }
};

Outcome run(const Trace& trace, bool overlapping) {
  at::manual_seed(3);
  Outcome outcome{make_inputs(overlapping), {}};
  outcome.outputs = replay(trace, outcome.inputs);
  return outcome;
}

void check_same(const Outcome& is, const Outcome& expected) {
  for (size_t i = 0; i < expected.inputs.size(); ++i)
    CHECK_MESSAGE(same_bits(is.inputs[i], expected.inputs[i]), "input ", i);
  REQUIRE(is.outputs.size() == expected.outputs.size());
  for (size_t i = 0; i < expected.outputs.size(); ++i)
    CHECK_MESSAGE(same_bits(is.outputs[i], expected.outputs[i]), "output ", i);
  CHECK(is.aliasing() == expected.aliasing());
}

bool differs_in_inputs(const Outcome& outcome, bool overlapping) {
  const auto fresh = make_inputs(overlapping);
  for (size_t i = 0; i < fresh.size(); ++i)
    if (!same_bits(outcome.inputs[i], fresh[i])) return true;
  return false;
}

Trace pure_part(Trace trace) {
  trace.calls.resize(trace.epilogue);
  trace.outputs.clear();
  return trace;
}

void check_program(uint64_t seed) {
  const bool overlapping = seed % 4 == 0;
  const c10::NoGradGuard no_grad;
  at::manual_seed(3);
  Outcome eager{make_inputs(overlapping), {}};
  eager.outputs = Program(seed, eager.inputs).run();

  const Captured captured = capture(seed, make_inputs(overlapping));
  CAPTURE(print(captured.trace));
  const Trace pure = functionalise(captured.trace);
  CAPTURE(print(pure));
  verify(pure, "Functionalise");
  check_same(run(pure, overlapping), eager);
  CHECK(!differs_in_inputs(run(pure_part(pure), overlapping), overlapping));

  const Trace cleaned = delete_last_used(fold(common_subexpressions(dead_code(pure))));
  CAPTURE(print(cleaned));
  verify(cleaned, "Delete Last Used");
  check_same(run(cleaned, overlapping), eager);

  // The same passes on a trace that still writes.
  const Trace impure = delete_last_used(fold(common_subexpressions(dead_code(captured.trace))));
  CAPTURE(print(impure));
  verify(impure, "Delete Last Used");
  check_same(run(impure, overlapping), eager);
}

}  // namespace

TEST_CASE("random programs of views and writes") {
  const char* wanted = std::getenv("FULGURITE_RANDOM_PROGRAMS");
  const uint64_t count = wanted ? std::stoull(wanted) : 400;
  for (uint64_t seed = 0; seed < count; ++seed) {
    CAPTURE(seed);
    CHECK_NOTHROW(check_program(seed));
  }
}

TEST_CASE("random programs that have failed") {
  // A view of another dtype is a copy that torch made; its geometry changes twice.
  CHECK_NOTHROW(check_program(5765));
}
