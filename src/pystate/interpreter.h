// Everything that depends on the version of CPython, except the meaning of its opcodes
// (opcodes.cpp). This is for 3.11.
#pragma once

#include <Python.h>

#include <cstdint>

#include "pystate/ref.h"
#include "pystate/values.h"

struct _PyInterpreterFrame;

namespace fulgurite::pystate {

using Frame = _PyInterpreterFrame;

// --- Frames of a thread. The functions of this section need no GIL when called on that thread.

// The innermost Python frame, or null.
const Frame* innermost_frame(PyThreadState* thread) noexcept;
const Frame* caller_of(const Frame* frame) noexcept;
PyCodeObject* code_of(const Frame* frame) noexcept;
// In code units, as PyCode_Addr2Line wants it when doubled. At a trace event: the instruction that
// is about to run.
int instruction_of(const Frame* frame) noexcept;
// The first parameter's value, looked up in its cell if a nested function uses it; null if gone.
PyObject* first_parameter(const Frame* frame) noexcept;

// --- Frames at a trace event. Everything is borrowed.

Frame* frame_of(PyFrameObject* object);
// One past the top of the value stack. Valid at an opcode event only.
PyObject** stack_end(Frame* frame);
// Local variables, then cells, then free variables.
PyObject** locals_of(Frame* frame);
PyObject* globals_of(Frame* frame);
PyObject* builtins_of(Frame* frame);
PyObject* mapping_of(Frame* frame);  // what LOAD_NAME reads first; null in a function
PyFunctionObject* function_of(const Frame* frame);
PyObject* generator_of(Frame* frame);  // the generator or coroutine that owns it, or null
bool entered_from_c(Frame* frame);
// At a call event: whether the frame goes on after a yield or an await.
bool resumes(Frame* frame);

// The frame object, if one has been made.
PyFrameObject* object_of(const Frame* frame);
void set_opcode_events(PyFrameObject* object, bool on);
bool has_opcode_events(PyFrameObject* object);
void set_line_events(PyFrameObject* object, bool on);

struct TraceFunction {
  Py_tracefunc function = nullptr;
  PyObject* argument = nullptr;  // borrowed
};
TraceFunction trace_function();  // of this thread

// The instructions before the interpreter specialised them: opcode and argument by turns.
Ref plain_instructions(PyCodeObject* code);
// The inline cache entries that follow an instruction, in code units.
int cache_units(int opcode);

// Data that lives as long as a code object, from a factory that runs at most once for each.
using CodeData = void* (*)(PyCodeObject*);
void* data_of_code(PyCodeObject* code, CodeData make, void (*destroy)(void*));

// --- Objects

// Changes when the dict does; no two states of any dicts ever had the same.
uint64_t dict_version(PyObject* dict);
// The same for what looking up attributes on the type gives; 0 is "unknown".
unsigned type_version(PyTypeObject* type);
// Borrowed; null where absent. Makes the type's version known.
PyObject* type_lookup(PyTypeObject* type, PyObject* name);

// Where the object keeps its instance dict, which is made if need be; null if it has none. The
// address stays valid while the object lives and its type does not change.
PyObject** instance_dict_slot(PyObject* object);

// Changes whenever the order of an OrderedDict may have; kept apart from its version. False where
// that cannot be told.
bool ordered_dict_state(PyObject* dict, uint64_t& state);

// The variable in memory that is the place, where it is one: a cell, a slot, a name. Null for
// others. The address stays valid while the container lives and its type does not change.
PyObject** variable_at(Kind kind, PyObject* container, PyObject* key);

// A bound special method of a C type, such as [].__len__.
struct BoundSlot {
  PyWrapperDescrObject* descriptor = nullptr;
  PyObject* self = nullptr;
};
bool is_bound_slot(PyObject* object);
BoundSlot bound_slot(PyObject* object);

// What a mappingproxy shows, borrowed.
PyObject* mapping_behind(PyObject* proxy);

struct SuperParts {
  PyTypeObject* type = nullptr;  // the search begins after it
  PyObject* object = nullptr;
  PyTypeObject* start = nullptr;  // the type whose order is searched
};
SuperParts super_parts(PyObject* object);

// What a functools.lru_cache wrapper consists of, borrowed.
struct CachedFunction {
  PyObject* results = nullptr;  // a dict; null where it cannot be had
  PyObject* function = nullptr;
  PyObject* keyword_mark = nullptr;  // comes before the arguments given by name in a key
  bool typed = false;                // whether types are part of a key
  bool keeps = false;                // results at all: maxsize is not 0
};
CachedFunction cached_function(PyObject* wrapper);
// The result itself, from an entry of `results`; borrowed.
PyObject* cached_result(PyObject* wrapper, PyObject* entry);

// All context variables of this thread, as one immutable value; restoring it puts them back.
Ref context_state();
void restore_context_state(PyObject* state);

}  // namespace fulgurite::pystate
