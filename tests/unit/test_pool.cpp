#include "codegen/pool/pool.h"

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "jit_harness.h"

namespace fulgurite {
namespace {

bool sums(int64_t chunks, int threads) {
  std::vector<int64_t> out(chunks);
  parallel_chunks(chunks, threads, [&](int64_t i) { out[i] += i + 1; });
  int64_t sum = 0;
  for (int64_t value : out) sum += value;
  return sum == chunks * (chunks + 1) / 2;
}

// The threads of a region whose chunks wait for each other, so that each takes part.
std::set<std::thread::id> threads_of(int chunks, int threads) {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::thread::id> seen;
  parallel_chunks(chunks, threads, [&](int64_t) {
    std::unique_lock lock(mutex);
    seen.insert(std::this_thread::get_id());
    changed.notify_all();
    changed.wait(lock, [&] { return static_cast<int>(seen.size()) == std::min(chunks, threads); });
  });
  return seen;
}

TEST_CASE("every chunk runs once") {
  for (int64_t chunks : {0, 1, 2, 3, 7, 64, 1000, 100'000})
    for (int threads : {0, 1, 2, 3, 8}) CHECK(sums(chunks, threads));
  CHECK(sums((1 << 20) - 1, 2));
  CHECK_THROWS_AS(sums(1 << 20, 2), InternalError);
}

TEST_CASE("one thread runs the chunks in order, and needs no pool") {
  CHECK(holds_in_child([] {
    std::vector<int64_t> order;
    parallel_chunks(5, 1, [&](int64_t i) { order.push_back(i); });
    return order == std::vector<int64_t>{0, 1, 2, 3, 4} && pool_threads() == 0;
  }));
}

TEST_CASE("as many threads as asked for take part, and no more are made") {
  CHECK(holds_in_child([] {
    const bool two = threads_of(2, 2).size() == 2 && pool_threads() == 1;
    const bool few_chunks = threads_of(2, 8).size() == 2 && pool_threads() == 1;
    const bool four = threads_of(4, 4).size() == 4 && pool_threads() == 3;
    // The other two stay out of it.
    const bool again = threads_of(2, 2).size() == 2 && pool_threads() == 3;
    return two && few_chunks && four && again;
  }));
}

TEST_CASE("never more threads than asked for run at once") {
  threads_of(4, 4);
  std::atomic<int> running{0}, most{0};
  for (int round = 0; round < 300; ++round) {
    const int threads = 2 + round % 3;
    most = 0;
    parallel_chunks(40, threads, [&](int64_t) {
      const int now = ++running;
      for (int before = most; before < now && !most.compare_exchange_weak(before, now);) {
      }
      for (volatile int i = 0; i < 300;) i = i + 1;
      --running;
    });
    CHECK(most <= threads);
  }
}

TEST_CASE("a region within a chunk runs on its thread") {
  std::atomic<int> elsewhere{0};
  parallel_chunks(8, 4, [&](int64_t) {
    const auto here = std::this_thread::get_id();
    parallel_chunks(8, 4, [&](int64_t) { elsewhere += std::this_thread::get_id() != here; });
  });
  CHECK(elsewhere == 0);
}

TEST_CASE("a second caller runs by itself") {
  std::atomic<int> elsewhere{0}, wrong{0};
  parallel_chunks(2, 2, [&](int64_t) {
    std::thread([&] {
      const auto here = std::this_thread::get_id();
      parallel_chunks(8, 4, [&](int64_t) { elsewhere += std::this_thread::get_id() != here; });
      wrong += !sums(100, 4);
    }).join();
  });
  CHECK(elsewhere == 0);
  CHECK(wrong == 0);
}

TEST_CASE("many callers at once") {
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&, c] {
      for (int i = 0; i < 500; ++i) wrong += !sums(1 + (i * 7 + c) % 23, 1 + (i + c) % 4);
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("a forked child has a pool of its own") {
  REQUIRE(threads_of(3, 3).size() == 3);
  CHECK(holds_in_child([] {
    return pool_threads() == 0 && threads_of(2, 2).size() == 2 && pool_threads() == 1 &&
           sums(100, 2);
  }));
  CHECK(sums(100, 3));
}

TEST_CASE("a child forked in the midst of a region has a pool of its own") {
  int failed = 0;
  std::atomic<bool> stop{false};
  std::thread caller([&] {
    while (!stop) sums(50, 3);
  });
  for (int i = 0; i < 20; ++i) failed += !holds_in_child([] { return sums(100, 3); });
  parallel_chunks(2, 2, [&](int64_t i) {
    if (i == 0) failed += !holds_in_child([] { return sums(100, 2); });
  });
  stop = true;
  caller.join();
  CHECK(failed == 0);
}

}  // namespace
}  // namespace fulgurite
