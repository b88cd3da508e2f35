// What a plan keeps alive while it runs.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>

#include "capture/tracer.h"
#include "compile/pipeline.h"

namespace fulgurite {
namespace {

// Counts the bytes of torch's allocator for the CPU while it lives.
class CountedMemory final : public c10::Allocator {
 public:
  CountedMemory() : inner_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, 200); }
  ~CountedMemory() override { c10::SetCPUAllocator(inner_, 200); }

  c10::DataPtr allocate(size_t bytes) override {
    held() += static_cast<int64_t>(bytes);
    peak() = std::max(peak(), held());
    auto* block = new Block{inner_->allocate(bytes), static_cast<int64_t>(bytes)};
    return {block->memory.get(), block, &release, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  static int64_t& held() {
    static int64_t bytes = 0;
    return bytes;
  }
  static int64_t& peak() {
    static int64_t bytes = 0;
    return bytes;
  }

 private:
  struct Block {
    c10::DataPtr memory;
    int64_t bytes;
  };
  static void release(void* context) {
    auto* block = static_cast<Block*>(context);
    held() -= block->bytes;
    delete block;
  }

  c10::Allocator* inner_;
};

constexpr int64_t kElements = 1 << 16;
constexpr int64_t kBytes = kElements * static_cast<int64_t>(sizeof(float));

// The most bytes that a run of `program` holds besides its argument, in tensors of kElements. Where
// the argument requires grad, writes stay as they were captured.
template <class F>
double peak_of(F&& program, bool requires_grad = false) {
  Tracer tracer;
  const at::Tensor x = at::ones({kElements}).requires_grad_(requires_grad);
  at::Tensor result;
  {
    const at::Tensor input = tracer.input(x, "x");
    Tracer::Listening listening(tracer);
    result = program(input);
  }
  const CompileOptions options{.differentiate = false};
  const Compiled compiled = compile(tracer.finish({result}, flat_tree(1)).trace, options);
  compiled.plan->run({x});
  const CountedMemory counted;
  CountedMemory::held() = CountedMemory::peak() = 0;
  compiled.plan->run({x});
  return static_cast<double>(CountedMemory::peak()) / static_cast<double>(kBytes);
}

at::Tensor chain(const at::Tensor& x) {
  at::Tensor t = x;
  for (int i = 0; i < 6; ++i) t = t.exp();
  return t;
}

// The last use of each value in the middle is a write in place, whose result nobody needs.
at::Tensor written_and_left(const at::Tensor& x) {
  at::Tensor sum = x.sum();
  for (int i = 0; i < 6; ++i) {
    at::Tensor t = at::empty_like(x).normal_(0, i + 1.0);
    sum = sum + t.sum();
    t.bernoulli_(0.5);
  }
  return sum;
}

TEST_CASE("a chain holds its result, and call by call one more tensor at a time") {
  const double peak = peak_of(chain);
  CHECK(peak >= 0.9);
  CHECK(peak < 2.5);
}

TEST_CASE("a write in place as the last use of a tensor frees it") {
  CHECK(peak_of(written_and_left, /*requires_grad=*/true) < 2.5);
}

}  // namespace
}  // namespace fulgurite
