// What reading and writing containers touches.
#pragma once

#include <Python.h>

namespace fulgurite::pystate {

class Recorder;

// container[key], its store and its deletion.
void read_item(Recorder& recorder, PyObject* container, PyObject* key);
void write_item(Recorder& recorder, PyObject* container, PyObject* key);
void delete_item(Recorder& recorder, PyObject* container, PyObject* key);

// Tensors are keys by identity: what a stand-in finds in a container of the program is not what the
// argument would find.
void refuse_stand_in(Recorder& recorder, PyObject* container, PyObject* key);
// One key of a dict, where no subclass is in the way.
void read_key(Recorder& recorder, PyObject* dict, PyObject* key);
void write_key(Recorder& recorder, PyObject* dict, PyObject* key);
// Removes the key, which is an error if it is not there.
void remove_key(Recorder& recorder, PyObject* dict, PyObject* key);

// `item in container`.
void read_membership(Recorder& recorder, PyObject* container, PyObject* item);
// bool(object), and len(object).
void read_truth(Recorder& recorder, PyObject* object);
void read_length(Recorder& recorder, PyObject* object);

// The elements of a container, array or view; nothing for other objects.
void read_contents(Recorder& recorder, PyObject* container);
void read_operand(Recorder& recorder, PyObject* operand);  // of a binary operator
void write_contents(Recorder& recorder, PyObject* container);
// Removes all of them.
void clear_contents(Recorder& recorder, PyObject* container);
// The contents, and those of the containers in it: what code that is not watched may look at when
// it gets the object. Such code may call callables, too; Python functions are watched then, others
// are looked into if `callables` says so.
enum class Callables : bool { Skip, LookInto };
void read_deeply(Recorder& recorder, PyObject* object, Callables callables = Callables::LookInto);

// iter(object), and the use of an iterator.
void read_iterable(Recorder& recorder, PyObject* object);
void advance(Recorder& recorder, PyObject* iterator);

}  // namespace fulgurite::pystate
