// Autocast, as it is on a thread.
#pragma once

#include <array>
#include <cstdint>

#include <c10/core/ScalarType.h>

namespace fulgurite {

// Whether it is on, and to which dtype, for each kind of device that programs run on.
class AutocastState {
 public:
  static constexpr size_t kKinds = 2;

  AutocastState() = default;  // off
  explicit AutocastState(uint64_t word) : word_(word) {}
  static AutocastState now();

  uint64_t word() const { return word_; }
  bool operator==(const AutocastState&) const = default;

  // Makes it that of the thread. What it casts is not cached meanwhile.
  class Scope {
   public:
    explicit Scope(const AutocastState& state);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    struct Of {
      bool on;
      c10::ScalarType dtype;
    };
    std::array<Of, kKinds> before_;
    bool cache_;
  };

 private:
  uint64_t word_ = 0;
};

}  // namespace fulgurite
