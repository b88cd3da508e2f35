// Attribute access done over without side effects: which places in which objects it reads or
// writes. Properties, __getattr__ and the like that are written in Python are frames of their own.
#pragma once

#include <Python.h>

namespace fulgurite::pystate {

class Recorder;

// `name` is an interned string.
void read_attribute(Recorder& recorder, PyObject* object, PyObject* name);
enum class Change : bool { Set, Remove };
// A write or a deletion, as the instruction or setattr() does it.
void write_attribute(Recorder& recorder, PyObject* object, PyObject* name,
                     Change change = Change::Set);
// The same past a __setattr__ that is written in Python, as object.__setattr__ does it.
void write_attribute_plainly(Recorder& recorder, PyObject* object, PyObject* name,
                             Change change = Change::Set);

// What a descriptor written in C, found on the object's type by that name, keeps or computes.
void read_slot(Recorder& recorder, PyObject* object, PyObject* name);

// Looking a name up on a type and its bases.
void read_type(Recorder& recorder, PyTypeObject* type, PyObject* name);
// All that C code may call on an object: its special methods, and its type.
void read_specials(Recorder& recorder, PyObject* object);
void read_bases(Recorder& recorder, PyTypeObject* type);
// The object's instance dict, noted as read; borrowed, null where it has none.
PyObject* read_instance_dict(Recorder& recorder, PyObject* object);

}  // namespace fulgurite::pystate
