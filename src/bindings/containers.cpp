#include "bindings/containers.h"

#include <unordered_map>

#include "base/error.h"
#include "bindings/python_tensor.h"

namespace fulgurite {
namespace {

// Imported on first use and kept for the life of the process.
PyObject* attribute_of(const char* module, const char* name) {
  return nb::object(nb::module_::import_(module).attr(name)).release().ptr();
}

Shape judge(PyTypeObject* type, PyObject* object) {
  // Instances of a class that is derived from a named tuple may have attributes besides.
  if (PyTuple_Check(object)) return type->tp_dictoffset ? Shape::Other : Shape::NamedTuple;
  static PyObject* is_container = attribute_of("fulgurite._containers", "is_container");
  const nb::object verdict = nb::steal(PyObject_CallOneArg(is_container, (PyObject*)type));
  if (!verdict.is_valid()) throw nb::python_error();
  if (nb::cast<bool>(verdict)) return Shape::Other;
  const nb::handle kind(reinterpret_cast<PyObject*>(type));
  const bool handles = !is_python_tensor(object) && nb::hasattr(kind, "__torch_function__");
  return handles ? Shape::Handler : Shape::Leaf;
}

}  // namespace

Shape shape_of(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyTuple_Type) return Shape::Tuple;
  if (type == &PyList_Type) return Shape::List;
  if (type == &PyDict_Type) return Shape::Dict;
  // Types live on here, so that an address stands for one type only.
  static auto* verdicts = new std::unordered_map<PyTypeObject*, Shape>();
  if (auto it = verdicts->find(type); it != verdicts->end()) return it->second;
  const Shape shape = judge(type, object);
  Py_INCREF(type);
  verdicts->emplace(type, shape);
  return shape;
}

Opened open_container(PyObject* object) {
  static PyObject* open = attribute_of("fulgurite._containers", "open");
  const nb::object opened = nb::steal(PyObject_CallOneArg(open, object));
  if (!opened.is_valid()) throw nb::python_error();
  return {nb::cast<nb::list>(opened[0]), opened[1], opened[2]};
}

nb::object build_named_tuple(PyTypeObject* type, nb::handle items) {
  static PyObject* build = attribute_of("fulgurite._containers", "build_named_tuple");
  nb::object result =
      nb::steal(PyObject_CallFunctionObjArgs(build, (PyObject*)type, items.ptr(), nullptr));
  if (!result.is_valid()) throw nb::python_error();
  return result;
}

bool is_plain_tensor(PyObject* object) {
  static PyTypeObject* parameter =
      reinterpret_cast<PyTypeObject*>(attribute_of("torch.nn.parameter", "Parameter"));
  PyTypeObject* type = Py_TYPE(object);
  return reinterpret_cast<PyObject*>(type) == tensor_class() || type == parameter;
}

}  // namespace fulgurite
