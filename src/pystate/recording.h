// Records which Python state a program reads and writes: guards, effects, and what is neither.
//
//   Recording recording({.roots = {{"model", model}, {"x", x}}});
//   ... run the program on this thread ...
//   recording.stop();
//   if (failed) recording.undo();     // the state is what it was before
//   else auto [guards, effects] = recording.outcome();
//
// All members need the GIL. Threads record independently of each other.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "pystate/effects.h"
#include "pystate/guards.h"
#include "pystate/impurity.h"
#include "pystate/log.h"

namespace fulgurite::pystate {

class Recording {
 public:
  struct Options {
    // Objects that the program starts from, by the names that messages use. Those not marked as
    // arguments have to be the very same in later runs.
    std::vector<Root> roots;
    // What the run has in place of tensors of the call.
    std::vector<PyObject*> stand_ins;
    // Kinds that raise an error of this type before they happen.
    ImpureSet raised = 0;
    PyObject* error_type = nullptr;
    // What it gives is kept for as long as a module is imported, whose code is not the program's.
    std::function<std::shared_ptr<void>()> during_imports;
    Effects::Opener open;
  };

  // Starts. A trace function that is set on the thread (a debugger's, a coverage tool's) sees the
  // lines as before, and is put back at the end. UserError if the thread is recorded already.
  explicit Recording(Options options);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // While it runs: the state that was there before, as the run has changed it so far, and whether
  // it has changed it since.
  std::vector<Ref> written_values() const;
  bool written_since(const std::vector<Ref>& then) const;

  void stop();

  // After stop():

  // Whether something outside of the program, which ran once, drew from torch's default generator.
  bool drew_outside() const;
  // False if the program replaced the trace function: then nothing below is to be relied on.
  bool complete() const;
  const std::vector<Impurity>& impurities() const;
  // Whether the object was there before the run, as far as the run has seen it.
  bool is_old(PyObject* object) const;
  // Puts back what the program wrote. False if something could not be put back.
  bool undo();
  // The guards are about the state before the run, the effects about that after it. Once only.
  struct Outcome {
    Guards guards;
    Effects effects;
  };
  Outcome outcome();
  // The user's file and line of something that was noted.
  struct Line {
    std::string file;
    int line = 0;
  };
  static Line line_of(const Where& where);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fulgurite::pystate
