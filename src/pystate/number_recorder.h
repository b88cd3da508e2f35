// Notes what a run does with numbers that it only computes with; see pystate/numbers.h.
#pragma once

#include <Python.h>

#include <vector>

#include "pystate/interpreter.h"
#include "pystate/log.h"
#include "pystate/number_uses.h"

namespace fulgurite::pystate {

class Recorder;
struct Instruction;

class NumberRecorder {
 public:
  // Notes what the instruction at `index` of code with uses of numbers is about to do.
  void observe(Recorder& recorder, const CodeReview& code, const Instruction& at, int index);
  // Of stores that were not seen to end.
  void settle(Log& log);

 private:
  // A use whose end is to come.
  struct Running {
    const Frame* frame;
    const NumberUse* use;
    LocationId place;
    PyObject* object;                   // whose attribute it is: an address, or null
    size_t updates;                     // of the place, when it was loaded
    std::vector<Operation> operations;  // so far
    Ref result;                         // once the store is about to run
  };
  using Place = std::vector<Running>::iterator;

  void load(Recorder& recorder, const Instruction& at, const NumberUse& use);
  void operate(Log& log, const Instruction& at, Place running, const Operator& applied);
  void end(Log& log, const Instruction& at, Place running);
  bool ask(Log& log, const Instruction& at, const Running& running);
  void finish_store(Log& log, const Frame* frame);
  void give_up(Log& log, Place running);
  Place find(const Frame* frame, const NumberUse& use);

  std::vector<Running> running_;
};

}  // namespace fulgurite::pystate
