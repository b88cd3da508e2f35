// A fork waits until nobody compiles: the child has only the thread that forked, and would find the
// locks of all others held for ever, those inside of LLVM and the dynamic loader among them.
#pragma once

namespace fulgurite {

// For the length of one piece of work that a fork must not cut in two. Waits while a fork is under
// way. Not to be nested, and not for work that forks.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

}  // namespace fulgurite
