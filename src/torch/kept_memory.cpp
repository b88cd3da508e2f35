#include "torch/kept_memory.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <list>
#include <mutex>
#include <unordered_map>

#include <c10/core/CPUAllocator.h>

#include "torch/memory_limit.h"

namespace fulgurite {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kHugePage = size_t{2} << 20;
constexpr auto kIdle = std::chrono::seconds(10);

struct Block {
  void* data = nullptr;
  size_t bytes = 0;
  Clock::time_point freed{};
};

void unmap(const Block& block) { munmap(block.data, block.bytes); }

// Aligned to a huge page; throws as torch does where there is no memory.
Block map(size_t bytes) {
  const size_t all = bytes + kHugePage;
  void* const begin =
      mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TORCH_CHECK_WITH(OutOfMemoryError, begin != MAP_FAILED,
                   "fulgurite: cannot allocate the memory of a result: ", bytes, " bytes (",
                   strerror(errno), ")");
  const auto at = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t aligned = (at + kHugePage - 1) / kHugePage * kHugePage;
  if (aligned > at) munmap(begin, aligned - at);
  const uintptr_t end = aligned + bytes;
  if (at + all > end) munmap(reinterpret_cast<void*>(end), at + all - end);
  madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);  // as good without
  return {reinterpret_cast<void*>(aligned), bytes};
}

int64_t most_kept() {
  static const int64_t bytes = memory_limit() / 8;
  return bytes;
}

class Keeper {
 public:
  void* take(size_t wanted) {
    const Block block = found(wanted);
    std::lock_guard lock(mutex_);
    in_use_.emplace(block.data, block.bytes);
    return block.data;
  }

  void give_back(void* data) {
    Block block{data, bytes_of(data)};
    // The system may take the pages where it is short of memory; until then they are here to be
    // written again.
    madvise(block.data, block.bytes, MADV_FREE);
    std::lock_guard lock(mutex_);
    block.freed = Clock::now();
    in_use_.erase(data);
    const auto bytes = static_cast<int64_t>(block.bytes);
    totals_.in_use -= bytes;
    totals_.kept += bytes;
    kept_.push_back(block);
    drop_idle();
    while (totals_.kept > bound()) drop_oldest();
  }

  int64_t release() {
    std::lock_guard lock(mutex_);
    const int64_t bytes = totals_.kept;
    while (!kept_.empty()) drop_oldest();
    return bytes;
  }

  KeptMemory totals() {
    std::lock_guard lock(mutex_);
    KeptMemory now = totals_;
    now.bound = bound();
    return now;
  }

  bool has(void* data) {
    std::lock_guard lock(mutex_);
    return in_use_.contains(data);
  }

  std::mutex& mutex() { return mutex_; }

 private:
  size_t bytes_of(void* data) {
    std::lock_guard lock(mutex_);
    return in_use_.at(data);
  }

  Block found(size_t wanted) {
    const size_t bytes = (wanted + kHugePage - 1) / kHugePage * kHugePage;
    {
      std::lock_guard lock(mutex_);
      count_in_use(static_cast<int64_t>(bytes));
      drop_idle();
      // The latest that fits: its memory may still be in the caches.
      const auto fits = std::find_if(kept_.rbegin(), kept_.rend(), [&](const Block& block) {
        return block.bytes >= bytes && block.bytes - bytes <= bytes / 4;
      });
      if (fits != kept_.rend()) {
        const Block block = *fits;
        kept_.erase(std::next(fits).base());
        count_in_use(static_cast<int64_t>(block.bytes - bytes));
        totals_.kept -= static_cast<int64_t>(block.bytes);
        ++totals_.reused;
        return block;
      }
      ++totals_.mapped;
    }
    return mapped(bytes);
  }

  int64_t bound() const { return std::min(most_kept(), totals_.peak); }

  // Without what is kept, if there is no room beside it.
  Block mapped(size_t bytes) {
    try {
      return map(bytes);
    } catch (const c10::Error&) {
      if (release() > 0) return mapped(bytes);
      std::lock_guard lock(mutex_);
      totals_.in_use -= static_cast<int64_t>(bytes);
      --totals_.mapped;
      throw;
    }
  }
  void count_in_use(int64_t bytes) {
    totals_.in_use += bytes;
    totals_.peak = std::max(totals_.peak, totals_.in_use);
  }
  void drop_oldest() {
    totals_.kept -= static_cast<int64_t>(kept_.front().bytes);
    unmap(kept_.front());
    kept_.pop_front();
  }
  void drop_idle() {
    const auto oldest = Clock::now() - kIdle;
    while (!kept_.empty() && kept_.front().freed < oldest) drop_oldest();
  }

  std::mutex mutex_;
  std::unordered_map<void*, size_t> in_use_;  // bytes
  std::list<Block> kept_;                     // the one freed first is the first
  KeptMemory totals_;
};

// Never destroyed: tensors may outlive it otherwise.
Keeper& keeper() {
  static Keeper& keeper = []() -> Keeper& {
    static auto* const made = new Keeper;
    // A child has only the thread that forked: nobody else may hold the lock then.
    pthread_atfork([] { made->mutex().lock(); }, [] { made->mutex().unlock(); },
                   [] { made->mutex().unlock(); });
    return *made;
  }();
  return keeper;
}

void free_block(void* data) {
  c10::profiledCPUMemoryReporter().Delete(data);
  keeper().give_back(data);
}

class KeepingAllocator final : public c10::Allocator {
 public:
  // Smaller blocks (of a tensor that is resized) come from torch's own.
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes < static_cast<size_t>(kBytesOfKept)) return c10::GetCPUAllocator()->allocate(bytes);
    void* const data = keeper().take(bytes);
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, &free_block, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

thread_local bool keeps_large_results = false;

class AllocatorBeforeTorchs final : public c10::Allocator {
 public:
  explicit AllocatorBeforeTorchs(c10::Allocator& inner) { inner_ = &inner; }

  c10::DataPtr allocate(size_t bytes) override {
    if (keeps_large_results && bytes >= static_cast<size_t>(kBytesOfKept))
      return keeping_allocator().allocate(bytes);
    return inner_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_raw; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    inner_->copy_data(to, from, bytes);
  }

 private:
  static void free_raw(void* data) {
    if (keeper().has(data))
      free_block(data);
    else
      inner_->raw_deallocate(data);
  }

  static c10::Allocator* inner_;
};
c10::Allocator* AllocatorBeforeTorchs::inner_ = nullptr;

// An allocator that someone else put there with a higher priority stays, and ours is not asked.
void put_before_torchs() {
  static const bool done = [] {
    c10::SetCPUAllocator(new AllocatorBeforeTorchs(*c10::GetCPUAllocator()));
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace

KeepsLargeResults::KeepsLargeResults() : before_(keeps_large_results) {
  put_before_torchs();
  keeps_large_results = true;
}

KeepsLargeResults::~KeepsLargeResults() { keeps_large_results = before_; }

KeptMemory kept_memory() { return keeper().totals(); }
int64_t release_kept_memory() { return keeper().release(); }

c10::Allocator& keeping_allocator() {
  static auto* const allocator = new KeepingAllocator;
  return *allocator;
}

}  // namespace fulgurite
