// How runs of kernels are timed, and how they are split over threads.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace fulgurite {

// Less than this is done sooner than another thread has begun.
inline constexpr int64_t kBytesOfOneThread = int64_t{1} << 17;
inline constexpr int64_t kChunksPerThread = 4;

// Nanoseconds of one run, after one that is not counted: the median of as many as fit into
// `seconds`, at least one.
template <class F>
double median_nanoseconds(double seconds, F&& run) {
  using Clock = std::chrono::steady_clock;
  run();
  std::vector<double> taken;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    const auto start = Clock::now();
    run();
    taken.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  } while (Clock::now() < end);
  std::nth_element(taken.begin(), taken.begin() + taken.size() / 2, taken.end());
  return taken[taken.size() / 2];
}

}  // namespace fulgurite
