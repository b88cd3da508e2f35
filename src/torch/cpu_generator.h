// The words of torch's generator on the CPU, an MT19937.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include <ATen/core/Generator.h>

namespace fulgurite {

// The state between two words.
struct TwisterState {
  static constexpr int64_t kWords = 624;
  std::array<uint32_t, kWords> words{};
  int64_t used = kWords;  // so many have been given out; then comes the next block
};

// Holds the generator's mutex while it lives, as ATen does while it fills a tensor.
class LockedGenerator {
 public:
  // Nothing: the default one.
  explicit LockedGenerator(const std::optional<at::Generator>& generator);

  // Nothing for a state that drawing cannot lead to.
  std::optional<TwisterState> state() const;
  void set_state(const TwisterState& state);

 private:
  at::Generator generator_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace fulgurite
