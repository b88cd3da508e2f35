#include "pystate/effects.h"

namespace fulgurite::pystate {
namespace {

bool set_key(PyObject* dict, PyObject* key, PyObject* value) {
  // As the C type does it, whatever a subclass makes of it.
  PyTypeObject* type = PyODict_Check(dict) ? &PyODict_Type : &PyDict_Type;
  if (!value && !PyDict_GetItemWithError(dict, key)) return !PyErr_Occurred();
  return type->tp_as_mapping->mp_ass_subscript(dict, key, value) == 0;
}

bool set_item(PyObject* list, PyObject* key, PyObject* value) {
  Py_ssize_t index = PyLong_AsSsize_t(key);
  if (index < 0) index += PyList_GET_SIZE(list);
  if (value) return PyList_SetItem(list, index, Py_NewRef(value)) == 0;
  return PyList_SetSlice(list, index, index + 1, nullptr) == 0;
}

bool set_slot(PyObject* object, PyObject* name, PyObject* value) {
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(object), name);
  descrsetfunc set = descriptor ? Py_TYPE(descriptor)->tp_descr_set : nullptr;
  if (!set) return Py_TYPE(object)->tp_setattro(object, name, value) == 0;
  if (set(descriptor, object, value) == 0) return true;
  if (value || !PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
  return PyErr_Clear(), true;  // there was nothing to remove
}

bool set_dict_contents(PyObject* dict, PyObject* contents) {
  Ref clear = Ref::steal(
      PyObject_CallMethod(PyODict_Check(dict) ? (PyObject*)&PyODict_Type : (PyObject*)&PyDict_Type,
                          "clear", "O", dict));
  if (!clear) return false;
  for (Py_ssize_t i = 0; i + 1 < PyTuple_GET_SIZE(contents); i += 2)
    if (!set_key(dict, PyTuple_GET_ITEM(contents, i), PyTuple_GET_ITEM(contents, i + 1)))
      return false;
  return true;
}

bool set_set_contents(PyObject* set, PyObject* contents) {
  if (PySet_Clear(set) < 0) return false;
  Ref iterator = Ref::steal(PyObject_GetIter(contents));
  while (Ref element = Ref::steal(PyIter_Next(iterator.get())))
    if (PySet_Add(set, element.get()) < 0) return false;
  return !PyErr_Occurred();
}

bool set_bytes(PyObject* array, PyObject* bytes) {
  if (PyByteArray_Resize(array, PyBytes_GET_SIZE(bytes)) < 0) return false;
  std::copy_n(PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes), PyByteArray_AS_STRING(array));
  return true;
}

bool set_contents(PyObject* container, PyObject* contents) {
  if (PyDict_Check(container)) return set_dict_contents(container, contents);
  if (PyList_Check(container))
    return PyList_SetSlice(container, 0, PyList_GET_SIZE(container), contents) == 0;
  if (PyAnySet_Check(container)) return set_set_contents(container, contents);
  if (PyByteArray_Check(container)) return set_bytes(container, contents);
  auto* type = reinterpret_cast<PyObject*>(deque_type());
  Ref cleared = Ref::steal(PyObject_CallMethod(type, "clear", "O", container));
  Ref filled = Ref::steal(cleared ? PyObject_CallMethod(type, "extend", "OO", container, contents)
                                  : nullptr);
  return static_cast<bool>(filled);
}

// `layout` is what buffer_of() gave.
bool set_buffer(PyObject* array, PyObject* layout) {
  PyObject* bytes = PyTuple_GetItem(layout, 3);
  Py_buffer view;
  if (!bytes || PyObject_GetBuffer(array, &view, PyBUF_FULL) < 0) return false;
  int failed =
      PyBuffer_FromContiguous(&view, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes), 'C');
  PyBuffer_Release(&view);
  return !failed;
}

bool set_context_variable(PyObject* variable, PyObject* value) {
  Ref token = Ref::steal(PyContextVar_Set(variable, value));
  return static_cast<bool>(token);
}

}  // namespace

bool store(Kind kind, PyObject* container, PyObject* key, PyObject* value) {
  switch (kind) {
    case Kind::Key:
      return set_key(container, key, value);
    case Kind::Item:
      return set_item(container, key, value);
    case Kind::Contents:
      return set_contents(container, value);
    case Kind::Cell:
      return PyCell_Set(container, value) == 0;
    case Kind::Slot:
      return set_slot(container, key, value);
    case Kind::TypeEntry:
      return PyType_Type.tp_setattro(container, key, value) == 0;
    case Kind::Buffer:
      return set_buffer(container, value);
    case Kind::Member:
      return (value == Py_True ? PySet_Add(container, key) : PySet_Discard(container, key)) >= 0;
    case Kind::ContextVar:
      return value && set_context_variable(container, value);
    case Kind::Appended: {
      Py_ssize_t size = PyList_GET_SIZE(container);
      return PyList_SetSlice(container, size, size, value) == 0;
    }
    default:
      break;
  }
  PyErr_SetString(PyExc_SystemError, "this kind of place cannot be written");
  return false;
}

}  // namespace fulgurite::pystate
