#include "executors/fused_cpu/draw_check.h"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>

#include "executors/fused_cpu/draw_words.h"
#include "torch/dispatch_state.h"

namespace fulgurite {
namespace {

constexpr int64_t kElements = 1000;  // more than a block, and no whole number of them
constexpr uint64_t kSeed = 2147483647;

class Words {
 public:
  Words(const Kernel& kernel, TwisterState state) : words_(kElements * 2), state_(state) {
    draw(kernel, state_, words_.data(), kElements * 2);
  }
  // Of two words, and of one.
  double wide(int64_t i) const {
    const uint64_t bits = static_cast<uint64_t>(words_[2 * i]) << 32 | words_[2 * i + 1];
    return std::ldexp(static_cast<double>(bits & ((uint64_t{1} << 53) - 1)), -53);
  }
  float narrow(int64_t i) const {
    return std::ldexp(static_cast<float>(words_[i] & ((1u << 24) - 1)), -24);
  }
  const TwisterState& state() const { return state_; }

 private:
  std::vector<uint32_t> words_;
  TwisterState state_;
};

template <class T, class Fill, class Expected>
bool agrees(const Kernel& kernel, bool two_words, Fill&& fill, Expected&& expected) {
  at::Generator generator = at::detail::createCPUGenerator(kSeed);
  const Words words(kernel, *LockedGenerator(generator).state());
  const at::Tensor filled = at::empty({kElements}, c10::CppTypeToScalarType<T>::value);
  fill(filled, generator);
  for (int64_t i = 0; i < kElements; ++i)
    if (filled.const_data_ptr<T>()[i] != expected(words, i)) return false;
  const auto after = LockedGenerator(generator).state();
  return !two_words ||
         (after && after->used == words.state().used && after->words == words.state().words);
}

std::string find_difference() {
  const KernelPointer kernel = draw_kernel();
  if (!kernel) return "there is no compiler for its numbers";
  constexpr double kKept = 0.3, kFrom = -0.3, kTo = 1.1;
  const KernelsOnly below;
  const at::DisableRecordFunctionGuard unseen;
  const auto bernoulli = [&](const at::Tensor& t, const at::Generator& g) {
    at::Tensor(t).bernoulli_(kKept, g);
  };
  const auto uniform = [&](const at::Tensor& t, const at::Generator& g) {
    at::Tensor(t).uniform_(kFrom, kTo, g);
  };
  const bool same =
      agrees<float>(*kernel, true, bernoulli,
                    [&](const Words& w, int64_t i) { return w.wide(i) < kKept ? 1.f : 0.f; }) &&
      agrees<double>(
          *kernel, true, uniform,
          [&](const Words& w, int64_t i) { return std::fma(w.wide(i), kTo - kFrom, kFrom); }) &&
      agrees<float>(*kernel, false, uniform, [&](const Words& w, int64_t i) {
        const auto from = static_cast<float>(kFrom);
        return std::fma(w.narrow(i), static_cast<float>(kTo) - from, from);
      });
  return same ? "" : "this build of torch draws other numbers than our loops";
}

}  // namespace

const std::string& refuse_draws() {
  static const std::string reason = find_difference();
  return reason;
}

}  // namespace fulgurite
