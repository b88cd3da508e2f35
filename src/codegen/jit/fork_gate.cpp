#include "codegen/jit/fork_gate.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <new>

namespace fulgurite {
namespace {

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int working = 0;
  bool forking = false;
};

Gate* the_gate = nullptr;

void before_fork() {
  std::unique_lock lock(the_gate->mutex);
  the_gate->changed.wait(lock, [] { return !the_gate->forking; });
  the_gate->forking = true;
  the_gate->changed.wait(lock, [] { return the_gate->working == 0; });
  lock.release();  // held across the fork
}

void after_fork_in_parent() {
  the_gate->forking = false;
  the_gate->mutex.unlock();
  the_gate->changed.notify_all();
}

void after_fork_in_child() {
  the_gate->forking = false;
  // Whoever waited was another thread, and is not here.
  new (&the_gate->changed) std::condition_variable;
  the_gate->mutex.unlock();
}

Gate& gate() {
  static Gate& gate = [&]() -> Gate& {
    the_gate = new Gate;
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return *the_gate;
  }();
  return gate;
}

// Before there are threads: a fork must not find it half made.
[[maybe_unused]] const Gate& made_at_load = gate();

}  // namespace

NoFork::NoFork() {
  Gate& g = gate();
  std::unique_lock lock(g.mutex);
  g.changed.wait(lock, [&] { return !g.forking; });
  ++g.working;
}

NoFork::~NoFork() {
  Gate& g = gate();
  std::lock_guard lock(g.mutex);
  if (--g.working == 0) g.changed.notify_all();
}

}  // namespace fulgurite
