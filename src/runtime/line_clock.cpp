#include "runtime/line_clock.h"

#include <utility>

namespace fulgurite {
namespace {

thread_local LineClock* t_clock = nullptr;

int64_t nanoseconds(std::chrono::steady_clock::duration taken) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count();
}

}  // namespace

LineClock::LineClock() : before_(std::exchange(t_clock, this)) {}
LineClock::~LineClock() { t_clock = before_; }

LineClock* LineClock::current() { return t_clock; }

void LineClock::begin(const void* program, size_t lines) {
  const Clock::time_point now = Clock::now();
  open_.push_back({{program, 0, std::vector<int64_t>(lines)}, now, now});
}

void LineClock::lap(int32_t line) {
  Open& open = open_.back();
  const Clock::time_point now = Clock::now();
  open.run.lines[line] += nanoseconds(now - open.last);
  open.last = now;
}

void LineClock::end() {
  Open open = std::move(open_.back());
  open_.pop_back();
  open.run.nanoseconds = nanoseconds(Clock::now() - open.start);
  done_.push_back(std::move(open.run));
}

}  // namespace fulgurite
