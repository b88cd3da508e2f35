#include "torch/cpu_generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

namespace fulgurite {
namespace {

at::CPUGeneratorImpl& on_cpu(const at::Generator& generator) {
  return *at::check_generator<at::CPUGeneratorImpl>(generator);
}

}  // namespace

LockedGenerator::LockedGenerator(const std::optional<at::Generator>& generator)
    : generator_(generator ? *generator : at::detail::getDefaultCPUGenerator()),
      lock_(generator_.mutex()) {}

std::optional<TwisterState> LockedGenerator::state() const {
  const at::mt19937_data_pod data = on_cpu(generator_).engine().data();
  TwisterState state;
  std::ranges::copy(data.state_, state.words.begin());
  // Before the first word of all `next` is 0; a block that is used up waits for the next word.
  if (data.left_ == 1 && data.next_ == 0) return state;
  state.used = data.next_;
  const bool is_valid =
      data.next_ > 0 && data.left_ + static_cast<int64_t>(data.next_) == TwisterState::kWords + 1;
  return is_valid ? std::optional(state) : std::nullopt;
}

void LockedGenerator::set_state(const TwisterState& state) {
  at::CPUGeneratorImpl& generator = on_cpu(generator_);
  at::mt19937 engine = generator.engine();
  at::mt19937_data_pod data = engine.data();
  std::ranges::copy(state.words, data.state_.begin());
  data.next_ = static_cast<uint32_t>(state.used);
  data.left_ = static_cast<int>(TwisterState::kWords + 1 - state.used);
  engine.set_data(data);
  generator.set_engine(engine);
}

}  // namespace fulgurite
