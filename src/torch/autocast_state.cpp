#include "torch/autocast_state.h"

#include <ATen/autocast_mode.h>

namespace fulgurite {
namespace {

constexpr std::array<at::DeviceType, AutocastState::kKinds> kDevices{at::kCPU, at::kCUDA};
// Of a device: a bit that says that it is on, and the dtype.
constexpr int kBits = 9;
constexpr uint64_t kOn = 0x100;

}  // namespace

AutocastState AutocastState::now() {
  uint64_t word = 0;
  for (at::DeviceType device : kDevices) {
    word <<= kBits;
    if (at::autocast::is_autocast_enabled(device))
      word |= kOn | static_cast<uint64_t>(at::autocast::get_autocast_dtype(device));
  }
  return AutocastState(word);
}

AutocastState::Scope::Scope(const AutocastState& state)
    : cache_(at::autocast::is_autocast_cache_enabled()) {
  uint64_t word = state.word_;
  for (size_t i = kDevices.size(); i-- > 0; word >>= kBits) {
    const at::DeviceType device = kDevices[i];
    before_[i] = {at::autocast::is_autocast_enabled(device),
                  at::autocast::get_autocast_dtype(device)};
    at::autocast::set_autocast_enabled(device, (word & kOn) != 0);
    if (word & kOn)
      at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(word & (kOn - 1)));
  }
  at::autocast::set_autocast_cache_enabled(false);
}

AutocastState::Scope::~Scope() {
  for (size_t i = 0; i < kDevices.size(); ++i) {
    at::autocast::set_autocast_enabled(kDevices[i], before_[i].on);
    at::autocast::set_autocast_dtype(kDevices[i], before_[i].dtype);
  }
  at::autocast::set_autocast_cache_enabled(cache_);
}

}  // namespace fulgurite
