// The Python containers that tensors come and go in. Tuples, lists, dicts and named tuples are
// handled here; any other (dataclasses, ModelOutput, registered pytree nodes) is opened and built
// by the Python function `_containers.open`.
#pragma once

#include <nanobind/nanobind.h>

namespace fulgurite {

namespace nb = nanobind;

enum class Shape : uint8_t {
  Leaf,
  Tuple,       // exactly tuple
  List,        // exactly list
  Dict,        // exactly dict
  NamedTuple,  // a subclass of tuple: built from its items by its type
  Other,       // opened by Python
  Handler,     // no tensor, but has __torch_function__ (a proxy of torch.fx, say)
};

Shape shape_of(PyObject* object);

// What `_containers.open` says of an object of shape Other.
struct Opened {
  nb::list children;
  nb::object context;  // compared by equality: field names, dict keys, ...
  nb::object build;    // build(children) -> a new container
};
Opened open_container(PyObject* object);

// A tuple subclass of this type from its items.
nb::object build_named_tuple(PyTypeObject* type, nb::handle items);

// A torch.Tensor or torch.nn.Parameter, and no other subclass.
bool is_plain_tensor(PyObject* object);

}  // namespace fulgurite
