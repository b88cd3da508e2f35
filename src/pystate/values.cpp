#include "pystate/values.h"

#include <cstring>
#include <unordered_set>
#include <vector>

#include "pystate/interpreter.h"

namespace fulgurite::pystate {
namespace {

// A type of some module, or null where it does not exist; kept for good.
PyTypeObject* find_type(const char* module_name, const char* name) {
  Ref module = Ref::steal(PyImport_ImportModule(module_name));
  Ref type = Ref::steal(module ? PyObject_GetAttrString(module.get(), name) : nullptr);
  if (!type) PyErr_Clear();
  return type && PyType_Check(type.get()) ? reinterpret_cast<PyTypeObject*>(type.release())
                                          : nullptr;
}

struct LibraryTypes {
  PyTypeObject* tensor = find_type("torch", "Tensor");
  PyTypeObject* atomic[5] = {find_type("torch", "dtype"), find_type("torch", "device"),
                             find_type("torch", "layout"), find_type("torch", "memory_format"),
                             find_type("torch", "qscheme")};
  PyTypeObject* array = find_type("numpy", "ndarray");
  PyTypeObject* numpy_scalar = find_type("numpy", "generic");
  PyTypeObject* decimal = find_type("decimal", "Decimal");
  PyTypeObject* partial = find_type("functools", "partial");
  PyTypeObject* cached = find_type("functools", "_lru_cache_wrapper");
  PyTypeObject* deque = find_type("collections", "deque");
  PyTypeObject* autograd_context = find_type("torch._C", "_FunctionBase");
};

const LibraryTypes& library_types() {
  static const LibraryTypes& types = *new LibraryTypes;
  return types;
}

bool is_instance(PyObject* object, PyTypeObject* type) {
  return type && PyObject_TypeCheck(object, type);
}

// Whether the sets have the same elements: the same objects, or equal constants.
bool same_elements(PyObject* a, PyObject* b) {
  if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b)) return false;
  std::unordered_set<PyObject*> objects;
  PyObject* element;
  Py_hash_t hash;
  for (Py_ssize_t at = 0; _PySet_NextEntry(b, &at, &element, &hash);) objects.insert(element);
  for (Py_ssize_t at = 0; _PySet_NextEntry(a, &at, &element, &hash);)
    if (!objects.count(element) && !(is_constant(element) && PySet_Contains(b, element) == 1))
      return false;
  return true;
}

bool same_float(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

bool is_atomic(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type ||
      type == &PyFloat_Type || object == Py_None || type == &PyBytes_Type || type == &PyCode_Type ||
      type == &PyEllipsis_Type || type == &PyComplex_Type || type == &PyRange_Type ||
      object == Py_NotImplemented)
    return true;
  for (PyTypeObject* other : library_types().atomic)
    if (type == other) return true;
  return false;
}

bool is_constant(PyObject* object) {
  if (is_atomic(object)) return true;
  if (PyTuple_Check(object)) {
    if (Py_TYPE(object)->tp_dictoffset) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++)
      if (!is_constant(PyTuple_GET_ITEM(object, i))) return false;
    return true;
  }
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return is_atomic(slice->start) && is_atomic(slice->stop) && is_atomic(slice->step);
  }
  if (PyFrozenSet_CheckExact(object)) {
    PyObject* element;
    Py_hash_t hash;
    for (Py_ssize_t at = 0; _PySet_NextEntry(object, &at, &element, &hash);)
      if (!is_constant(element)) return false;
    return true;
  }
  return false;
}

bool is_mutable_container(PyObject* object) {
  return PyList_Check(object) || PyDict_Check(object) || PySet_Check(object) ||
         PyByteArray_Check(object) || is_deque(object);
}

PyTypeObject* deque_type() { return library_types().deque; }
bool is_deque(PyObject* object) { return is_instance(object, library_types().deque); }
bool is_tensor(PyObject* object) { return is_instance(object, library_types().tensor); }
bool is_autograd_context(PyObject* object) {
  return is_instance(object, library_types().autograd_context);
}
bool is_array(PyObject* object) { return is_instance(object, library_types().array); }
bool is_raw_memory(PyObject* object) {
  return PyObject_CheckBuffer(object) && !PyBytes_Check(object) && !PyByteArray_Check(object) &&
         !is_array(object) && !is_instance(object, library_types().numpy_scalar);
}
bool is_decimal(PyObject* object) { return is_instance(object, library_types().decimal); }
bool is_partial(PyObject* object) { return is_instance(object, library_types().partial); }
bool is_cached_function(PyObject* object) { return is_instance(object, library_types().cached); }
bool is_heap_type(PyTypeObject* type) { return type->tp_flags & Py_TPFLAGS_HEAPTYPE; }

bool same_constant(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
  PyTypeObject* type = Py_TYPE(a);
  if (type == &PyFloat_Type) return same_float(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
  if (type == &PyComplex_Type) {
    Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
    return same_float(x.real, y.real) && same_float(x.imag, y.imag);
  }
  if (PyTuple_Check(a)) {
    Py_ssize_t size = PyTuple_GET_SIZE(a);
    if (size != PyTuple_GET_SIZE(b) || !is_constant(a)) return false;
    for (Py_ssize_t i = 0; i < size; i++)
      if (!same_constant(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
    return true;
  }
  // Equal but different code is told apart by its source lines.
  if (type == &PyCode_Type || !is_constant(a) || !is_constant(b)) return false;
  int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

bool same_value(Kind kind, PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b) return false;
  switch (kind) {
    case Kind::Contents:
    case Kind::Specials:
    case Kind::Bases:
    case Kind::Function: {
      if (PyAnySet_Check(a) && PyAnySet_Check(b)) return same_elements(a, b);
      if (!PyTuple_Check(a) || !PyTuple_Check(b)) break;
      Py_ssize_t size = PyTuple_GET_SIZE(a);
      if (size != PyTuple_GET_SIZE(b)) return false;
      for (Py_ssize_t i = 0; i < size; i++)
        if (!same_constant(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
      return true;
    }
    default:
      break;
  }
  return same_constant(a, b);
}

PyObject* interned(const char* text) {
  return PyUnicode_InternFromString(text);  // the reference is kept for good
}

namespace {

// clang-format off
constexpr const char* kSpecialNames[] = {
    "__getattribute__", "__getattr__", "__setattr__", "__delattr__", "__eq__", "__ne__", "__lt__",
    "__le__", "__gt__", "__ge__", "__hash__", "__len__", "__length_hint__", "__bool__",
    "__iter__", "__next__", "__reversed__", "__contains__", "__getitem__", "__setitem__",
    "__delitem__", "__missing__", "__call__", "__index__", "__int__", "__float__", "__complex__",
    "__str__", "__repr__", "__format__", "__bytes__", "__round__", "__trunc__", "__floor__",
    "__ceil__", "__torch_function__", "__torch_dispatch__", "__array__", "__instancecheck__",
    "__subclasscheck__", "__del__", "__new__", "__init__", "__get__", "__set__", "__delete__",
    "__set_name__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__aiter__", "__anext__",
    "__await__", "__class_getitem__", "__init_subclass__", "__prepare__", "__mro_entries__",
    "__add__", "__radd__", "__iadd__", "__sub__", "__rsub__", "__isub__", "__mul__", "__rmul__",
    "__imul__", "__matmul__", "__rmatmul__", "__imatmul__", "__truediv__", "__rtruediv__",
    "__itruediv__", "__floordiv__", "__rfloordiv__", "__ifloordiv__", "__mod__", "__rmod__",
    "__imod__", "__divmod__", "__rdivmod__", "__pow__", "__rpow__", "__ipow__", "__lshift__",
    "__rlshift__", "__ilshift__", "__rshift__", "__rrshift__", "__irshift__", "__and__",
    "__rand__", "__iand__", "__xor__", "__rxor__", "__ixor__", "__or__", "__ror__", "__ior__",
    "__neg__", "__pos__", "__abs__", "__invert__", "__copy__", "__deepcopy__", "__reduce__",
    "__reduce_ex__", "__getstate__", "__setstate__", "__dir__", "__sizeof__",
};
// clang-format on

}  // namespace

SpecialNames special_names() {
  static const std::vector<PyObject*>& names = *[] {
    auto* made = new std::vector<PyObject*>;
    for (const char* text : kSpecialNames) made->push_back(interned(text));
    return made;
  }();
  return {names.data(), static_cast<Py_ssize_t>(names.size())};
}

}  // namespace fulgurite::pystate
