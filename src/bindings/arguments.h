// The arguments of one call: the tensors in them, and the key of everything else.
#pragma once

#include <string>

#include <nanobind/nanobind.h>

#include "runtime/guard_key.h"

namespace fulgurite {

namespace nb = nanobind;

struct Arguments {
  Key key;                                    // structure, types, numbers, ambient state
  c10::SmallVector<PyObject*, 8> compared;    // borrowed: strings and the like, by equality
  c10::SmallVector<PyObject*, 4> identified;  // borrowed: objects that stand for themselves
  c10::SmallVector<PyObject*, 8> tensors;     // borrowed, in order, repeats included
  c10::SmallVector<const at::TensorImpl*, 8> impls;
  c10::SmallVector<nb::object, 1> opened;  // keeps what opening containers has made
  PyObject* handler = nullptr;  // borrowed: an argument that handles torch functions by itself
  std::string declined;         // why such arguments cannot be compiled; ""
};

// As given to a vectorcall. With `offsets` the place of each tensor in its storage counts too.
void read_arguments(Arguments& out, PyObject* const* args, Py_ssize_t positional,
                    PyObject* keyword_names, bool offsets);

// Equal arguments, as far as a compiled entry is concerned. May raise nothing: a comparison that
// fails counts as unequal.
bool equal_values(c10::ArrayRef<PyObject*> a, c10::ArrayRef<PyObject*> b);

}  // namespace fulgurite
