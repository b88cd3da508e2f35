// How TorchScript runs scripted functions.
#pragma once

namespace fulgurite {

// While it lives, functions that were not optimised before run as they are written: operator by
// operator, without derivative graphs of TorchScript's own, which autograd knows as one node each.
// Holds for all threads.
class PlainScripts {
 public:
  PlainScripts();
  ~PlainScripts();
  PlainScripts(const PlainScripts&) = delete;
  PlainScripts& operator=(const PlainScripts&) = delete;

 private:
  bool before_;
};

}  // namespace fulgurite
