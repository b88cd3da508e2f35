// Watches the instructions of one thread and notes in a log what they read and write.
//
// A trace function written in C is called just before each instruction of the user's and the
// libraries' Python code. The value stack is valid then, so that the container, the key, the new
// value, the callee and its arguments are at hand. No code is changed.
#pragma once

#include <Python.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pystate/code_review.h"
#include "pystate/impurity.h"
#include "pystate/interpreter.h"
#include "pystate/log.h"
#include "pystate/number_recorder.h"
#include "torch/plain_scripts.h"

namespace fulgurite::pystate {

// The instruction that is about to run.
struct Instruction {
  Frame* frame;
  PyCodeObject* code;
  int opcode;
  int argument;
  int next;        // the instruction after it
  PyObject** end;  // one past the top of the value stack

  PyObject* top(int depth = 0) const { return end[-1 - depth]; }
  PyObject* name(int index) const { return PyTuple_GET_ITEM(code->co_names, index); }
};

class Recorder {
 public:
  // See Recording::Options.
  using ImportScope = std::function<std::shared_ptr<void>()>;
  Recorder(std::vector<Root> roots, const std::vector<PyObject*>& stand_ins, ImpureSet raised,
           PyObject* error_type, ImportScope during_imports);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // The trace function is installed and removed on the calling thread. stop() says whether it was
  // still there.
  void start();
  bool stop();

  Log log;
  std::vector<Impurity> impurities;
  const Instruction* current = nullptr;  // that is about to run

  // The program asks which object this is. Whether the run has it in place of an argument of the
  // call: another one in each call.
  bool identify(PyObject* object) {
    if (is_tensor(object) || PyTuple_Check(object) || is_mutable_container(object))
      log.identified.insert(object);
    return stand_ins_.count(object) != 0;
  }

  // What was called outside drew from torch's default generator.
  bool drew_outside = false;

  // Calls what is no part of the program, unrecorded and uncaptured. Where it raises, the program
  // goes on with its error, and is none that can be compiled.
  Ref call_outside(PyObject* callable, std::span<PyObject* const> arguments, PyObject* keywords);

  void impure(Impure kind, std::string what) { note(kind, std::move(what), true); }

  // The instruction's result, if it has one, will be a new object (of the type, if given).
  void expect_fresh(const Instruction& at, PyTypeObject* type = nullptr);
  // Nothing is noted until the frame goes on with another instruction.
  void pause(const Instruction& at) { paused_by_ = at.frame; }

  // Calls of functools.lru_cache wrappers that ran the function, by wrapper and key of the result.
  struct FilledCache {
    Ref wrapper, key;
  };
  std::vector<FilledCache> filled_caches;

  // Notes that a lock is taken (1) or given back (-1).
  void hold_lock(PyObject* lock, int change);

  // Notes that the run asked whether the type counts as a subclass of an abstract class.
  void note_abstract_check(PyObject* type, PyObject* abstract);

  // From now on scripts run as they are written, the function among them.
  void run_scripts_plainly(PyObject* function);

  // The context variables before the first of them was written; empty if none was.
  Ref context;

 private:
  struct Pending {
    const Frame* frame;
    int next;
    PyTypeObject* type;
  };

  void note(Impure kind, std::string what, bool preventable);
  static int trace(PyObject* argument, PyFrameObject* frame, int what, PyObject* value);
  int forward(PyFrameObject* frame, int what, PyObject* value);
  void on_call(PyFrameObject* object);
  bool is_watched(const Frame* frame) const;
  void on_opcode(PyFrameObject* object);
  void on_return(PyFrameObject* object, PyObject* value);
  void begin_import(const Frame* frame);
  void end_import();
  std::vector<int> abstract_answers() const;
  void enter(Frame* frame);
  void enter_generator(Frame* frame);
  void enter_function(PyObject* function);
  void enter_from_c(Frame* frame);
  void find_in_closure(PyObject* function, const Frame* caller);
  void enter_initialiser(Frame* frame);
  void add_made(PyObject* object);
  const CodeReview& review(PyCodeObject* code);
  void pause_until_return(PyFrameObject* object);

  ska::flat_hash_set<PyObject*> stand_ins_;
  ImpureSet raised_;
  Ref error_type_;
  Ref to_raise_;  // an exception
  TraceFunction previous_;
  std::vector<Pending> pending_;
  const Frame* paused_by_ = nullptr;
  bool until_return_ = false;  // paused until the frame returns, not until its next instruction
  ImportScope during_imports_;
  const ReviewedFunction* running_ = nullptr;  // that `paused_by_` runs
  const Frame* import_frame_ = nullptr;        // the outermost that finds or runs a module
  std::shared_ptr<void> import_scope_;
  std::vector<std::pair<Ref, Ref>> abstract_checks_;  // type, abstract class
  std::vector<int> answers_before_import_;
  std::optional<PlainScripts> plain_scripts_;
  NumberRecorder numbers_;
  std::vector<std::pair<Ref, int>> locks_;  // how many times each was taken more than given back
  ska::flat_hash_set<const Frame*> generators_;  // that started in this run
  std::vector<Ref> codes_;
  uint64_t id_;
  const Frame* outermost_ = nullptr;  // that was running at the start
  PyCodeObject* last_code_ = nullptr;
  const CodeReview* last_review_ = nullptr;
};

}  // namespace fulgurite::pystate
