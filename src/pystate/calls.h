// Calls of code that is not watched: C functions, types written in C, reviewed Python code.
#pragma once

#include <Python.h>

#include <span>
#include <string>

namespace fulgurite::pystate {

class Recorder;
struct Instruction;

struct Call {
  PyObject* callable;
  PyObject* self;                        // of a method, else null
  std::span<PyObject* const> arguments;  // without self; those given by name come last
  PyObject* keywords;                    // a tuple of their names, or null
  const Instruction& at;

  size_t positional() const;
};

// Notes what the call is about to do. `arguments` includes self where the callable is unbound.
void observe_call(Recorder& recorder, const Instruction& at, PyObject* callable,
                  std::span<PyObject* const> arguments, PyObject* keywords);

// The same where the arguments are not known before they are taken one by one from an iterator.
void observe_call_of_unknown(Recorder& recorder, const Instruction& at, PyObject* callable);

// Notes what C code does that calls the object.
void read_callable(Recorder& recorder, PyObject* callable);

// "time.time", "list.append": for messages.
std::string describe_callable(PyObject* callable);

}  // namespace fulgurite::pystate
