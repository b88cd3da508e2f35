// A kernel that a user wrote in place of a printed one.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "codegen/jit/compile.h"

namespace fulgurite {

// For any thread: a run that has begun ends with the kernel that it began with.
class ReplacedKernel {
 public:
  // Null: none.
  const Kernel* get() const { return used_.load(std::memory_order_acquire); }

  void set(KernelPointer kernel) {
    const std::lock_guard lock(mutex_);
    used_.store(kernel.get(), std::memory_order_release);
    if (kernel) kept_.push_back(std::move(kernel));
  }

 private:
  std::atomic<const Kernel*> used_{nullptr};
  std::mutex mutex_;
  std::vector<KernelPointer> kept_;  // all that were set: somebody may be running one
};

}  // namespace fulgurite
