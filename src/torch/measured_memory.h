// The memory of tensors that is taken and given back while one of these lives, in its thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <c10/util/ThreadLocalDebugInfo.h>

namespace fulgurite {

// Of the CPU, in bytes, as torch's allocators report it to profilers. What was there before does
// not count, and giving it back does not either. UserError where a profiler runs.
class MeasuredMemory {
 public:
  MeasuredMemory();
  ~MeasuredMemory();
  MeasuredMemory(const MeasuredMemory&) = delete;
  MeasuredMemory& operator=(const MeasuredMemory&) = delete;

  int64_t peak() const;
  int64_t live() const;

 private:
  class Reporter;
  std::shared_ptr<Reporter> reporter_;
  std::optional<c10::DebugInfoGuard> guard_;
};

}  // namespace fulgurite
