#include "codegen/pool/pool.h"

#include <immintrin.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

namespace fulgurite {
namespace {

constexpr int kSpins = 20'000;         // of a worker before it sleeps
constexpr int kSpinsOfCaller = 2'000;  // before it yields; chunks that others run end soon
constexpr int kFieldBits = 20;
constexpr uint64_t kField = (uint64_t{1} << kFieldBits) - 1;
constexpr int64_t kMaxChunks = kField;  // of one region

// epoch:24 | chunks of the region:20 | the next to be taken:20. A worker takes a chunk of the
// region that it was woken for or none: the exchange fails once another region has begun.
struct Claim {
  uint64_t word;

  static Claim first(uint32_t epoch, int64_t chunks) {
    return {uint64_t{epoch} << (2 * kFieldBits) | static_cast<uint64_t>(chunks) << kFieldBits};
  }
  bool is_of(uint32_t epoch) const {
    return word >> (2 * kFieldBits) == (epoch & ((uint32_t{1} << 24) - 1));
  }
  int64_t chunks() const { return word >> kFieldBits & kField; }
  int64_t next() const { return word & kField; }
};

// True on the pool's threads, and on a caller's while it is inside of a region.
thread_local bool in_region = false;

class Pool {
 public:
  void run(ChunkFunction run, void* context, int64_t chunks, int threads);
  bool try_enter() { return busy_.try_lock(); }
  void leave() { busy_.unlock(); }
  int threads() const { return count_.load(std::memory_order_relaxed); }

 private:
  void make_workers(int wanted);
  void work(int number, uint32_t seen);
  void take_chunks(uint32_t epoch);
  uint32_t next_epoch(uint32_t seen);

  alignas(64) std::atomic<uint64_t> claim_{0};
  alignas(64) std::atomic<int64_t> done_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};
  std::atomic<int> asleep_{0};
  std::atomic<int> allowed_{0};  // workers that may take part in the region
  ChunkFunction run_ = nullptr;
  void* context_ = nullptr;
  alignas(64) std::mutex busy_;  // held by the caller of the region
  std::atomic<int> count_{0};
  std::vector<std::thread> workers_;
};

// Dropped in a forked child without being destroyed: its threads are not there, and its mutex may
// be held by one of them.
std::atomic<Pool*> the_pool{nullptr};

void forget_pool() {
  the_pool.store(nullptr, std::memory_order_relaxed);
  in_region = false;
}

Pool& pool() {
  if (Pool* found = the_pool.load(std::memory_order_acquire)) return *found;
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, forget_pool);
  Pool* none = nullptr;
  auto made = std::make_unique<Pool>();
  if (the_pool.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel))
    return *made.release();
  return *none;
}

// Signals are for the threads that the program has made.
std::thread quiet_thread(auto body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } restore{before};
  return std::thread(body);
}

void Pool::make_workers(int wanted) {
  try {
    while (static_cast<int>(workers_.size()) < wanted) {
      const int number = static_cast<int>(workers_.size());
      const uint32_t seen = epoch_.load(std::memory_order_relaxed);
      workers_.push_back(quiet_thread([this, number, seen] { work(number, seen); }));
      count_.store(number + 1, std::memory_order_relaxed);
    }
  } catch (const std::system_error&) {
    return;  // the system allows no more; those that are there do the work
  }
}

void Pool::take_chunks(uint32_t epoch) {
  Claim claim{claim_.load(std::memory_order_acquire)};
  while (claim.is_of(epoch) && claim.next() < claim.chunks()) {
    if (!claim_.compare_exchange_weak(claim.word, claim.word + 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
      continue;
    run_(context_, claim.next());
    done_.fetch_add(1, std::memory_order_release);
    claim.word = claim_.load(std::memory_order_acquire);
  }
}

// Returns when there is another than `seen`.
uint32_t Pool::next_epoch(uint32_t seen) {
  for (int spins = kSpins; spins > 0; --spins) {
    const uint32_t epoch = epoch_.load(std::memory_order_acquire);
    if (epoch != seen) return epoch;
    _mm_pause();
  }
  asleep_.fetch_add(1, std::memory_order_seq_cst);
  epoch_.wait(seen);
  asleep_.fetch_sub(1, std::memory_order_relaxed);
  return epoch_.load(std::memory_order_acquire);
}

void Pool::work(int number, uint32_t seen) {
  in_region = true;
  for (;;) {
    seen = next_epoch(seen);
    if (number < allowed_.load(std::memory_order_relaxed)) take_chunks(seen);
  }
}

void Pool::run(ChunkFunction run, void* context, int64_t chunks, int threads) {
  const int helpers = static_cast<int>(std::min<int64_t>(threads, chunks)) - 1;
  make_workers(helpers);
  run_ = run;
  context_ = context;
  allowed_.store(helpers, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  const uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  claim_.store(Claim::first(epoch, chunks).word, std::memory_order_release);
  epoch_.store(epoch, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst)) epoch_.notify_all();

  take_chunks(epoch);
  for (int spins = 0; done_.load(std::memory_order_acquire) != chunks; ++spins) {
    if (spins % kSpinsOfCaller == kSpinsOfCaller - 1)
      std::this_thread::yield();
    else
      _mm_pause();
  }
}

}  // namespace

void run_chunks(ChunkFunction run, void* context, int64_t chunks, int threads) {
  require(chunks <= kMaxChunks, "a region of {} chunks; at most {}", chunks, kMaxChunks);
  const bool alone = chunks <= 1 || threads <= 1 || in_region;
  Pool* shared = alone ? nullptr : &pool();
  if (!shared || !shared->try_enter()) {
    for (int64_t i = 0; i < chunks; ++i) run(context, i);
    return;
  }
  in_region = true;
  shared->run(run, context, chunks, threads);
  in_region = false;
  shared->leave();
}

int pool_threads() {
  const Pool* found = the_pool.load(std::memory_order_acquire);
  return found ? found->threads() : 0;
}

}  // namespace fulgurite
