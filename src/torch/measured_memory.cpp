#include "torch/measured_memory.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include <torch/csrc/profiler/orchestration/observer.h>

#include "base/error.h"

namespace fulgurite {

using torch::profiler::impl::ActiveProfilerType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;
using torch::profiler::impl::ProfilerStateBase;

// Torch takes whatever is at this place for the state of a profiler: of one that records nothing.
class MeasuredMemory::Reporter final : public ProfilerStateBase {
 public:
  Reporter()
      : ProfilerStateBase(ProfilerConfig(ProfilerState::Disabled, /*report_input_shapes=*/false,
                                         /*profile_memory=*/true)) {}
  ActiveProfilerType profilerType() override { return ActiveProfilerType::NONE; }

  void reportMemoryUsage(void* block, int64_t bytes, size_t, size_t, c10::Device device) override {
    if (!device.is_cpu()) return;
    const std::lock_guard lock(mutex_);
    // What an earlier measurement saw made is reported when it is freed.
    if (bytes > 0 ? !blocks_.insert(block).second : blocks_.erase(block) == 0) return;
    live_ += bytes;
    peak_ = std::max(peak_, live_);
  }

  int64_t peak() const {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  int64_t live() const {
    const std::lock_guard lock(mutex_);
    return live_;
  }

 private:
  mutable std::mutex mutex_;  // threads of torch inherit what the one that starts them has
  std::unordered_set<const void*> blocks_;
  int64_t live_ = 0, peak_ = 0;
};

MeasuredMemory::MeasuredMemory() : reporter_(std::make_shared<Reporter>()) {
  const auto kind = c10::DebugInfoKind::PROFILER_STATE;
  if (c10::ThreadLocalDebugInfo::get(kind))
    user_error("memory cannot be measured while a profiler runs in this thread");
  guard_.emplace(kind, reporter_);
}

MeasuredMemory::~MeasuredMemory() = default;

int64_t MeasuredMemory::peak() const { return reporter_->peak(); }
int64_t MeasuredMemory::live() const { return reporter_->live(); }

}  // namespace fulgurite
