// How long each call of the plans that a thread runs takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace fulgurite {

// One run of a plan.
struct TimedRun {
  const void* program = nullptr;  // as Plan::id
  int64_t nanoseconds = 0;        // of all
  std::vector<int64_t> lines;     // of each call of the trace
};

// While it lives, the plans that this thread runs are timed call by call. A look at the clock after
// each takes about 25 ns, which counts with the call.
class LineClock {
 public:
  LineClock();
  ~LineClock();
  LineClock(const LineClock&) = delete;

  // Of this thread; null: none.
  static LineClock* current();

  void begin(const void* program, size_t lines);
  void lap(int32_t line);  // what passed since the last look belongs to it
  void end();

  // Those that came to their end, in that order.
  std::vector<TimedRun> take() { return std::exchange(done_, {}); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Open {
    TimedRun run;
    Clock::time_point start, last;
  };

  std::vector<Open> open_;  // a call may run another compiled function
  std::vector<TimedRun> done_;
  LineClock* before_;
};

}  // namespace fulgurite
