// What the places of each kind hold.
#include <cstring>
#include <vector>

#include "pystate/interpreter.h"
#include "pystate/values.h"

namespace fulgurite::pystate {
namespace {

constexpr Py_ssize_t kLargestBuffer = 1 << 16;  // bytes that a guard compares on every call

Ref borrowed_or_clear(PyObject* value) {
  if (!value) PyErr_Clear();
  return Ref::borrow(value);
}

Ref owned_or_clear(PyObject* value) {
  if (!value) PyErr_Clear();
  return Ref::steal(value);
}

// Those that the type does not have from `object`: numbers of names, each with what it has.
Ref specials_of(PyTypeObject* type) {
  SpecialNames names = special_names();
  Ref found = Ref::steal(PyList_New(0));
  for (Py_ssize_t i = 0; i < names.count; i++) {
    PyObject* special = type_lookup(type, names.begin[i]);
    if (special == type_lookup(&PyBaseObject_Type, names.begin[i])) continue;
    Ref number = Ref::steal(PyLong_FromSsize_t(i));
    PyList_Append(found.get(), number.get());
    if (special) PyList_Append(found.get(), special);
  }
  return Ref::steal(PyList_AsTuple(found.get()));
}

Ref item_of(PyObject* list, PyObject* key) {
  Py_ssize_t index = PyLong_AsSsize_t(key), size = PyList_GET_SIZE(list);
  if (index == -1 && PyErr_Occurred()) PyErr_Clear();
  if (index < 0) index += size;
  return index >= 0 && index < size ? Ref::borrow(PyList_GET_ITEM(list, index)) : Ref();
}

Ref slot_of(PyObject* object, PyObject* name) {
  PyObject* descriptor = type_lookup(Py_TYPE(object), name);
  descrgetfunc get = descriptor ? Py_TYPE(descriptor)->tp_descr_get : nullptr;
  if (get) return owned_or_clear(get(descriptor, object, (PyObject*)Py_TYPE(object)));
  // A type whose own C code looks attributes up, such as threading.local.
  return owned_or_clear(Py_TYPE(object)->tp_getattro(object, name));
}

Ref function_of(PyObject* object) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  auto or_none = [](PyObject* value) { return value ? value : Py_None; };
  return Ref::steal(PyTuple_Pack(3, function->func_code, or_none(function->func_defaults),
                                 or_none(function->func_kwdefaults)));
}

Ref length_of(PyObject* container) {
  Py_ssize_t size = PyDict_Check(container)     ? PyDict_GET_SIZE(container)
                    : PyList_Check(container)   ? PyList_GET_SIZE(container)
                    : PyAnySet_Check(container) ? PySet_GET_SIZE(container)
                                                : Py_SIZE(container);
  return Ref::steal(PyLong_FromSsize_t(size));
}

Ref context_variable(PyObject* variable) {
  PyObject* value = nullptr;
  if (PyContextVar_Get(variable, nullptr, &value) < 0) PyErr_Clear();
  return Ref::steal(value);
}

Ref registrations() {
  static PyObject* const token = [] {
    Ref module = Ref::steal(PyImport_ImportModule("_abc"));
    return module ? PyObject_GetAttrString(module.get(), "get_cache_token") : nullptr;
  }();
  return token ? owned_or_clear(PyObject_CallNoArgs(token)) : Ref();
}

// What iterating over an instance of a C type gives, whatever a subclass makes of it.
std::vector<Ref> iterate(PyTypeObject* type, PyObject* object) {
  std::vector<Ref> elements;
  Ref iterator = Ref::steal(type->tp_iter(object));
  while (iterator) {
    Ref element = Ref::steal(PyIter_Next(iterator.get()));
    if (!element) break;
    elements.push_back(std::move(element));
  }
  PyErr_Clear();
  return elements;
}

Ref ordered_dict_contents(PyObject* dict) {
  std::vector<Ref> keys = iterate(&PyODict_Type, dict);
  Ref result = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(2 * keys.size())));
  Py_ssize_t next = 0;
  for (Ref& key : keys) {
    Ref value = borrowed_or_clear(PyDict_GetItemWithError(dict, key.get()));
    PyTuple_SET_ITEM(result.get(), next++, key.release());
    PyTuple_SET_ITEM(result.get(), next++, value ? value.release() : Py_NewRef(Py_None));
  }
  return result;
}

Ref dict_contents(PyObject* dict) {
  Ref result = Ref::steal(PyTuple_New(2 * PyDict_GET_SIZE(dict)));
  PyObject *key, *value;
  Py_ssize_t next = 0;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
    PyTuple_SET_ITEM(result.get(), next++, Py_NewRef(key));
    PyTuple_SET_ITEM(result.get(), next++, Py_NewRef(value));
  }
  return result;
}

}  // namespace

Ref contents_of(PyObject* container) {
  if (PyODict_Check(container)) return ordered_dict_contents(container);
  if (PyDict_Check(container)) return dict_contents(container);
  if (PyList_Check(container)) return Ref::steal(PyList_AsTuple(container));
  if (PyAnySet_Check(container)) return owned_or_clear(PyFrozenSet_New(container));
  if (PyByteArray_Check(container))
    return Ref::steal(PyBytes_FromStringAndSize(PyByteArray_AS_STRING(container),
                                                PyByteArray_GET_SIZE(container)));
  std::vector<Ref> elements = iterate(deque_type(), container);
  Ref result = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(elements.size())));
  for (size_t i = 0; i < elements.size(); i++)
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), elements[i].release());
  return result;
}

Py_ssize_t part_count(PyObject* object) {
  if (PyTuple_Check(object)) return PyTuple_GET_SIZE(object);
  if (PyFunction_Check(object)) {
    PyObject* closure = PyFunction_GET_CLOSURE(object);
    return 2 + (closure ? PyTuple_GET_SIZE(closure) : 0);
  }
  if (PyMethod_Check(object) || is_cached_function(object)) return 2;
  if (Py_TYPE(object) == &PyStaticMethod_Type || Py_TYPE(object) == &PyClassMethod_Type) return 1;
  if (PyObject_TypeCheck(object, &PyProperty_Type) || is_partial(object)) return 3;
  if (PyCFunction_Check(object)) return 1;
  return 0;
}

PyObject* part_of(PyObject* object, Py_ssize_t index) {
  if (index >= part_count(object)) return nullptr;
  if (PyTuple_Check(object)) return PyTuple_GET_ITEM(object, index);
  if (PyFunction_Check(object)) {
    if (index == 0) return PyFunction_GET_GLOBALS(object);
    if (index == 1) return reinterpret_cast<PyFunctionObject*>(object)->func_builtins;
    return PyTuple_GET_ITEM(PyFunction_GET_CLOSURE(object), index - 2);
  }
  if (PyMethod_Check(object))
    return index ? PyMethod_GET_SELF(object) : PyMethod_GET_FUNCTION(object);
  if (PyCFunction_Check(object)) return PyCFunction_GET_SELF(object);
  if (is_cached_function(object)) {
    CachedFunction cached = cached_function(object);
    return index ? cached.function : cached.results;
  }
  // Members of C structures: the reference that the object keeps outlives the one dropped here.
  static const char* const property_parts[] = {"fget", "fset", "fdel"};
  static const char* const partial_parts[] = {"func", "args", "keywords"};
  const char* name = is_partial(object)                             ? partial_parts[index]
                     : PyObject_TypeCheck(object, &PyProperty_Type) ? property_parts[index]
                                                                    : "__func__";
  Ref part = owned_or_clear(PyObject_GetAttrString(object, name));
  return part.get();
}

PyObject* array_owner(PyObject* array) {
  while (array && is_array(array)) {
    Ref base = Ref::steal(PyObject_GetAttrString(array, "base"));
    if (!base || base.get() == Py_None) return PyErr_Clear(), array;
    array = base.get();  // kept alive by the array over it
  }
  return nullptr;
}

Ref buffer_of(PyObject* object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO) < 0) {
    PyErr_Clear();
    return Ref();
  }
  Ref result;
  bool references = view.format && std::strchr(view.format, 'O');
  if (view.len <= kLargestBuffer && !references) {
    Ref bytes = Ref::steal(PyBytes_FromStringAndSize(nullptr, view.len));
    PyBuffer_ToContiguous(PyBytes_AS_STRING(bytes.get()), &view, view.len, 'C');
    auto sizes = [&](Py_ssize_t* data) {
      return PyBytes_FromStringAndSize(reinterpret_cast<char*>(data),
                                       view.ndim * static_cast<Py_ssize_t>(sizeof(Py_ssize_t)));
    };
    result = Ref::steal(
        Py_BuildValue("(zNNO)", view.format, sizes(view.shape), sizes(view.strides), bytes.get()));
  }
  PyBuffer_Release(&view);
  if (!result) PyErr_Clear();
  return result;
}

Ref value_at(Kind kind, PyObject* container, PyObject* key) {
  auto* type = reinterpret_cast<PyTypeObject*>(container);
  switch (kind) {
    case Kind::Key:
      return borrowed_or_clear(PyDict_GetItemWithError(container, key));
    case Kind::Contents:
      return contents_of(container);
    case Kind::Appended:
    case Kind::Length:
      return length_of(container);
    case Kind::Present:
      return Ref::steal(PyBool_FromLong(PyDict_Contains(container, key) == 1));
    case Kind::Member:
      return Ref::steal(PyBool_FromLong(PySet_Contains(container, key) == 1));
    case Kind::Item:
      return item_of(container, key);
    case Kind::TypeAttribute:
      return Ref::borrow(type_lookup(type, key));
    case Kind::TypeEntry:
      return borrowed_or_clear(PyDict_GetItemWithError(type->tp_dict, key));
    case Kind::Specials:
      return specials_of(type);
    case Kind::Bases:
      return Ref::borrow(type->tp_mro);
    case Kind::Class:
      return Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(container)));
    case Kind::InstanceDict: {
      PyObject** slot = instance_dict_slot(container);
      return Ref::borrow(slot ? *slot : nullptr);
    }
    case Kind::Part:
      return Ref::borrow(part_of(container, PyLong_AsSsize_t(key)));
    case Kind::Function:
      return function_of(container);
    case Kind::Cell:
      return Ref::borrow(PyCell_GET(container));
    case Kind::Slot:
      return slot_of(container, key);
    case Kind::ContextVar:
      return context_variable(container);
    case Kind::Referent: {
      PyObject* referent = PyWeakref_GET_OBJECT(container);
      return referent == Py_None ? Ref() : Ref::borrow(referent);
    }
    case Kind::Buffer:
      return buffer_of(container);
    case Kind::Answer: {
      Ref arguments = PyTuple_Check(key) ? Ref::borrow(key) : Ref::steal(PyTuple_Pack(1, key));
      return owned_or_clear(PyObject_CallObject(container, arguments.get()));
    }
    case Kind::Registrations:
      return registrations();
  }
  return Ref();
}

}  // namespace fulgurite::pystate
