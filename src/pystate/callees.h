// The reviewed callees written in C, known by identity: the very function, not its name.
//
// A callee that is in no table is flagged.
#pragma once

#include "pystate/calls.h"

namespace fulgurite::pystate {

using CallHandler = void (*)(Recorder& recorder, const Call& call);

// What it means that the callee is handed to C code, which calls it with arguments not known here.
enum class Handed : uint8_t {
  Reads,    // it reads the object that it is bound to
  Writes,   // it writes that object
  Unknown,  // it could touch anything
};

struct Callee {
  CallHandler handler;
  Handed handed;
};

// Null where the callable has not been reviewed.
const Callee* find_callee(PyObject* callable);
// For a type, what calling its instances does.
const Callee* find_instance_callee(PyTypeObject* type);

// Lets calls of an object, or of the instances of a type, pass: what they do is known elsewhere.
void allow_callable(PyObject* callable);
void allow_instances(PyTypeObject* type);  // they call their attribute `target`

}  // namespace fulgurite::pystate
