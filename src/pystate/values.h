// Python objects as values: which of them cannot change, when two are the same, and what a place in
// an object holds now. Nothing here runs Python code.
#pragma once

#include <Python.h>

#include <cstdint>

#include "pystate/ref.h"

namespace fulgurite::pystate {

// Where Python state is kept: one kind of place in an object, picked out by a key.
enum class Kind : uint8_t {
  Key,            // container[key] of a dict; a key that is absent counts
  Contents,       // all of a list, dict, set, deque or bytearray, in order
  Length,         // how many there are
  Present,        // whether the dict has the key
  Member,         // whether the set has the key
  Item,           // container[key] of a list; key is an int, perhaps negative
  TypeAttribute,  // what looking up the key on a type and its bases gives
  TypeEntry,      // the type's own attribute, for writes
  Specials,       // all special methods of a type: what C code may call on an instance
  Bases,          // the order in which a type and its bases are searched
  Class,          // the object's type
  InstanceDict,   // the object's __dict__
  Part,           // a part of an object that is fixed when it is made; key numbers it
  Function,       // a function's code and defaults
  Cell,           // a variable shared with nested functions
  Slot,           // what a descriptor written in C keeps or computes
  ContextVar,
  Referent,       // what a weak reference points to
  Buffer,         // the memory of an array
  Answer,         // what a C function says that only looks at the state of a library
  Registrations,  // the counter of all abc.register() calls
  Appended,       // the items put at the end of a list of which nothing else is known
};

// Types whose objects neither change nor refer to objects that do.
bool is_atomic(PyObject* object);
// Atomic, or a tuple (frozenset, slice) of such.
bool is_constant(PyObject* object);
// A builtin container that can change, or an instance of a subclass.
bool is_mutable_container(PyObject* object);
PyTypeObject* deque_type();
bool is_deque(PyObject* object);
bool is_tensor(PyObject* object);
// The ctx of a torch.autograd.Function: made anew by torch for each application.
bool is_autograd_context(PyObject* object);
bool is_array(PyObject* object);  // numpy.ndarray
// An object with memory that is neither guarded nor constant: of ctypes, array, mmap, memoryview.
bool is_raw_memory(PyObject* object);
bool is_decimal(PyObject* object);  // decimal.Decimal
bool is_partial(PyObject* object);
bool is_cached_function(PyObject* object);  // a functools.lru_cache wrapper
bool is_heap_type(PyTypeObject* type);      // made at run time, so its attributes can change

// The same value for every program: the same object, or equal constants of the same type.
bool same_constant(PyObject* a, PyObject* b);

// What the place holds; empty where there is nothing. Contents and the like are tuples or bytes
// made for the purpose.
Ref value_at(Kind kind, PyObject* container, PyObject* key);
// Whether two results of value_at() are the same value.
bool same_value(Kind kind, PyObject* a, PyObject* b);

// The elements of a mutable container in order, a dict's keys and values by turns.
Ref contents_of(PyObject* container);

// The parts of objects that never change; null where it has none of that number.
PyObject* part_of(PyObject* object, Py_ssize_t index);
Py_ssize_t part_count(PyObject* object);

// The array that owns the memory of this one; null where that is no array.
PyObject* array_owner(PyObject* array);

// The bytes of an array with its layout; empty where there are too many or they are references.
Ref buffer_of(PyObject* object);

// The names of the special methods, interned.
struct SpecialNames {
  PyObject* const* begin;
  Py_ssize_t count;
};
SpecialNames special_names();

// An interned string that lives for good.
PyObject* interned(const char* text);

}  // namespace fulgurite::pystate
