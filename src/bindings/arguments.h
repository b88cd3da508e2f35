// The arguments of one call: the tensors in them, and the key of everything else.
#pragma once

#include <string>

#include <nanobind/nanobind.h>

#include "runtime/guard_key.h"

namespace fulgurite {

namespace nb = nanobind;

struct Arguments {
  PyObject* const* given = nullptr;  // as given to the call; borrowed
  Py_ssize_t positional = 0;
  PyObject* keyword_names = nullptr;
  Key key;                                    // structure, types, numbers, ambient state
  c10::SmallVector<PyObject*, 8> compared;    // borrowed: strings and the like, by equality
  c10::SmallVector<PyObject*, 4> identified;  // borrowed: objects that stand for themselves
  c10::SmallVector<PyObject*, 8> tensors;     // borrowed, in order, repeats included
  c10::SmallVector<const at::TensorImpl*, 8> impls;
  c10::SmallVector<PyObject*, 4> containers;  // borrowed: those that can be changed
  c10::SmallVector<nb::object, 1> opened;     // keeps what opening containers has made
  PyObject* handler = nullptr;  // borrowed: an argument that handles torch functions by itself
  std::string declined;         // why such arguments cannot be compiled; ""
};

// As given to a vectorcall. With `offsets` the place of each tensor in its storage counts too.
void read_arguments(Arguments& out, PyObject* const* args, Py_ssize_t positional,
                    PyObject* keyword_names, bool offsets);

// Where the containers among the arguments are, to find them again in another call.
struct ContainerPlaces {
  struct Step {
    enum class Kind : uint8_t { Item, Attribute, Dict } kind;  // [key], .key, .__dict__
    nb::object key;
  };
  struct Place {
    nb::object argument;  // a position or a keyword
    std::vector<Step> steps;
    int32_t container = -1;  // which one is there; one may be at several places
  };
  std::vector<Place> places;
  int32_t containers = 0;
};

// By their numbers. False where there is none, or where two that were one are two, or the other way
// round.
bool find_containers(const ContainerPlaces& places, const Arguments& arguments,
                     std::vector<nb::object>& containers);

// From its form in Python: [(position or keyword, ((kind of step, key), ...), number), ...].
ContainerPlaces read_places(nb::handle description);

// Equal arguments, as far as a compiled entry is concerned. May raise nothing: a comparison that
// fails counts as unequal.
bool equal_values(c10::ArrayRef<PyObject*> a, c10::ArrayRef<PyObject*> b);

}  // namespace fulgurite
