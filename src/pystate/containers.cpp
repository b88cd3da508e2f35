#include "pystate/containers.h"

#include <fmt/format.h>

#include "pystate/attributes.h"
#include "pystate/calls.h"
#include "pystate/recorder.h"

namespace fulgurite::pystate {
namespace {

constexpr int kDeepest = 5;

// The dict behind dict.keys(), dict.values(), dict.items() or a class's __dict__, or null.
PyObject* viewed_dict(PyObject* object) {
  if (Py_TYPE(object) == &PyDictProxy_Type) {
    PyObject* mapping = mapping_behind(object);
    return mapping && PyDict_Check(mapping) ? mapping : nullptr;
  }
  if (!PyDictViewSet_Check(object) && !PyDictValues_Check(object)) return nullptr;
  return reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(object)->dv_dict);
}

bool has_own_items(PyObject* dict) {
  static PyObject* const getter = interned("__getitem__");
  PyObject* found = type_lookup(Py_TYPE(dict), getter);
  // dict.__getitem__ is a method, so that its arguments need no parsing.
  return found && Py_TYPE(found) != &PyMethodDescr_Type && Py_TYPE(found) != &PyWrapperDescr_Type;
}

bool is_plain_dict(PyObject* object) { return PyDict_Check(object) && !has_own_items(object); }

void read_dict_item(Recorder& recorder, PyObject* dict, PyObject* key) {
  static PyObject* const missing = interned("__missing__");
  static PyObject* const factory = interned("default_factory");
  read_key(recorder, dict, key);
  if (PyDict_CheckExact(dict) || PyDict_GetItemWithError(dict, key)) return PyErr_Clear();
  PyErr_Clear();
  PyObject* found = type_lookup(Py_TYPE(dict), missing);
  if (!found || Py_TYPE(found) != &PyMethodDescr_Type) return;  // none, or a frame of its own
  recorder.log.read(Kind::Slot, dict, factory);                 // a defaultdict fills itself
  Ref made = value_at(Kind::Slot, dict, factory);
  if (!made || made.get() == Py_None) return;
  write_key(recorder, dict, key);
  if (PyType_Check(made.get()) && recorder.current) recorder.expect_fresh(*recorder.current);
}

void read_array(Recorder& recorder, PyObject* array) {
  if (recorder.log.is_fresh(array)) return;
  if (value_at(Kind::Buffer, array, nullptr)) {
    recorder.log.read(Kind::Buffer, array);
  } else {
    recorder.impure(Impure::Unreviewed,
                    fmt::format("reads a {} that is too large to be compared on every call",
                                Py_TYPE(array)->tp_name));
  }
}

// The write may go through a view, so it counts for the array that owns the memory.
void write_array(Recorder& recorder, PyObject* array) {
  PyObject* owner = array_owner(array);
  if (owner && recorder.log.is_fresh(owner)) return;
  if (owner && value_at(Kind::Buffer, owner, nullptr))
    return recorder.log.write(Kind::Buffer, owner);
  recorder.impure(Impure::Unreviewed,
                  fmt::format("writes to the memory of a {}", Py_TYPE(array)->tp_name));
}

struct Deep {
  Recorder& recorder;
  Callables callables;

  void object(PyObject* object, int depth) {
    if (is_atomic(object)) return;
    read_specials(recorder, object);
    if (PyObject* dict = viewed_dict(object)) object = dict;
    if (Py_TYPE(object)->tp_iternext) return advance(recorder, object);
    if (callables == Callables::LookInto && PyCallable_Check(object) && !PyType_Check(object))
      read_callable(recorder, object);
    read_contents(recorder, object);
    if (depth < kDeepest) return elements(object, depth + 1);
    if (is_mutable_container(object) && Py_SIZE(object))
      recorder.impure(Impure::Unreviewed, "hands containers nested too deeply to C code");
  }

  void elements(PyObject* container, int depth) {
    if (PyTuple_Check(container)) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(container); i++)
        object(PyTuple_GET_ITEM(container, i), depth);
    } else if (PyList_Check(container)) {
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(container); i++)
        object(PyList_GET_ITEM(container, i), depth);
    } else if (PyDict_Check(container)) {
      PyObject *key, *value;
      for (Py_ssize_t at = 0; PyDict_Next(container, &at, &key, &value);) {
        object(key, depth);
        object(value, depth);
      }
    } else if (PyAnySet_Check(container)) {
      PyObject* value;
      Py_hash_t hash;
      for (Py_ssize_t at = 0; _PySet_NextEntry(container, &at, &value, &hash);)
        object(value, depth);
    } else if (is_deque(container)) {
      elements(contents_of(container).get(), depth);
    }
  }
};

// An index may be an object with an __index__, in a slice, too.
void read_index(Recorder& recorder, PyObject* key) {
  if (is_atomic(key) || is_tensor(key)) return;
  read_specials(recorder, key);
  if (!PySlice_Check(key)) return;
  auto* slice = reinterpret_cast<PySliceObject*>(key);
  for (PyObject* part : {slice->start, slice->stop, slice->step}) read_specials(recorder, part);
}

void read_list_item(Recorder& recorder, PyObject* list, PyObject* key, bool write) {
  if (!PyLong_Check(key)) {
    if (write) return recorder.log.write(Kind::Contents, list);
    return read_contents(recorder, list);
  }
  Log& log = recorder.log;
  Py_ssize_t position = PyLong_AsSsize_t(key), size = PyList_GET_SIZE(list);
  // A place that is written has one name, also when the list has another length.
  const bool named_by_length = write || log.number_only || log.first_contents(list);
  if (position < 0 && position + size >= 0 && named_by_length) {
    log.read(Kind::Length, list);
    position += size;
  }
  Ref plain = Ref::steal(PyLong_FromSsize_t(position));  // not of a subclass
  PyObject* index = log.canonical_key(plain.get());
  if (write) return log.write(Kind::Item, list, index);
  log.read(Kind::Item, list, index);
}

// A C type whose item access is not known.
void touch_unknown_items(Recorder& recorder, PyObject* container, const char* verb) {
  static PyObject* const getter = interned("__getitem__");
  PyObject* get = type_lookup(Py_TYPE(container), getter);
  bool in_python = is_heap_type(Py_TYPE(container)) && (!get || PyFunction_Check(get));
  if (in_python || is_constant(container) || PyTuple_Check(container) || PyType_Check(container) ||
      is_tensor(container))
    return;
  if (recorder.log.is_old(container))
    recorder.impure(Impure::Unreviewed,
                    fmt::format("{} an item of a {}", verb, Py_TYPE(container)->tp_name));
}

}  // namespace

void refuse_stand_in(Recorder& recorder, PyObject* container, PyObject* key) {
  if (recorder.identify(key) && recorder.log.is_old(container))
    recorder.impure(Impure::Identity,
                    fmt::format("looks a tensor among its arguments up in a {}, by identity",
                                Py_TYPE(container)->tp_name));
}

void read_key(Recorder& recorder, PyObject* dict, PyObject* key) {
  read_specials(recorder, key);
  refuse_stand_in(recorder, dict, key);
  if (PyObject* behind = viewed_dict(dict)) dict = behind;
  if (!PyDict_Check(dict)) return read_contents(recorder, dict);
  PyObject* canonical = recorder.log.canonical_key(key);
  if (!canonical) return read_contents(recorder, dict);
  recorder.log.read(Kind::Key, dict, canonical);
}

void write_key(Recorder& recorder, PyObject* dict, PyObject* key) {
  read_specials(recorder, key);
  refuse_stand_in(recorder, dict, key);
  PyObject* canonical = recorder.log.canonical_key(key);
  if (!canonical) return recorder.log.write(Kind::Contents, dict);
  recorder.log.write(Kind::Key, dict, canonical);
}

void remove_key(Recorder& recorder, PyObject* dict, PyObject* key) {
  read_specials(recorder, key);
  PyObject* canonical = recorder.log.canonical_key(key);
  if (canonical && PyDict_Check(dict)) recorder.log.read(Kind::Present, dict, canonical);
  write_key(recorder, dict, key);
}

void read_item(Recorder& recorder, PyObject* container, PyObject* key) {
  read_specials(recorder, container);
  read_index(recorder, key);
  if (is_tensor(container)) return read_deeply(recorder, key);
  if (viewed_dict(container)) return read_key(recorder, container, key);
  if (is_plain_dict(container)) return read_dict_item(recorder, container, key);
  if (PyList_Check(container)) return read_list_item(recorder, container, key, false);
  if (is_deque(container)) return read_contents(recorder, container);
  if (PyByteArray_Check(container)) return read_contents(recorder, container);
  if (is_array(container)) return read_array(recorder, container);
  touch_unknown_items(recorder, container, "reads");
}

void write_item(Recorder& recorder, PyObject* container, PyObject* key) {
  read_specials(recorder, container);
  read_index(recorder, key);
  if (is_tensor(container)) return read_deeply(recorder, key);
  if (is_plain_dict(container)) return write_key(recorder, container, key);
  if (PyList_Check(container)) return read_list_item(recorder, container, key, true);
  if (is_mutable_container(container)) return write_contents(recorder, container);
  if (is_array(container)) return write_array(recorder, container);
  touch_unknown_items(recorder, container, "writes");
}

void delete_item(Recorder& recorder, PyObject* container, PyObject* key) {
  if (PyList_Check(container)) {
    read_specials(recorder, container);
    read_index(recorder, key);
    return recorder.log.write(Kind::Contents, container);
  }
  if (is_plain_dict(container)) return remove_key(recorder, container, key);
  write_item(recorder, container, key);
}

void read_membership(Recorder& recorder, PyObject* container, PyObject* item) {
  read_specials(recorder, container);
  if (PyObject* dict = viewed_dict(container)) {
    if (PyDictKeys_Check(container) || Py_TYPE(container) == &PyDictProxy_Type)
      return read_key(recorder, dict, item);
    return read_deeply(recorder, container);
  }
  if (PyDict_Check(container)) return read_key(recorder, container, item);
  refuse_stand_in(recorder, container, item);
  PyObject* key = PySet_Check(container) ? recorder.log.canonical_key(item) : nullptr;
  if (key) return (void)recorder.log.read(Kind::Member, container, key);
  read_deeply(recorder, item);
  read_deeply(recorder, container);
}

void read_length(Recorder& recorder, PyObject* object) {
  read_specials(recorder, object);
  if (PyObject* dict = viewed_dict(object)) object = dict;
  if (is_mutable_container(object)) recorder.log.read(Kind::Length, object);
  if (is_array(object)) read_array(recorder, object);
}

void read_truth(Recorder& recorder, PyObject* object) {
  if (PyBool_Check(object) || object == Py_None) return;
  read_length(recorder, object);
}

void read_contents(Recorder& recorder, PyObject* container) {
  if (PyObject* dict = viewed_dict(container)) container = dict;
  if (is_mutable_container(container)) recorder.log.read(Kind::Contents, container);
  if (is_array(container)) read_array(recorder, container);
  if (is_raw_memory(container) && recorder.log.is_old(container))
    recorder.impure(Impure::Unreviewed,
                    fmt::format("reads the memory of a {}", Py_TYPE(container)->tp_name));
}

void read_operand(Recorder& recorder, PyObject* operand) {
  if (is_decimal(operand))
    recorder.impure(Impure::Unreviewed,
                    "computes with a decimal.Decimal, whose precision is set elsewhere; use a "
                    "float");
  read_contents(recorder, operand);
}

void write_contents(Recorder& recorder, PyObject* container) {
  if (is_mutable_container(container)) recorder.log.write(Kind::Contents, container);
  if (is_array(container)) write_array(recorder, container);
}

void clear_contents(Recorder& recorder, PyObject* container) {
  if (is_mutable_container(container)) recorder.log.clear(container);
}

void read_deeply(Recorder& recorder, PyObject* object, Callables callables) {
  Deep{recorder, callables}.object(object, 0);
}

void read_iterable(Recorder& recorder, PyObject* object) {
  read_specials(recorder, object);
  read_contents(recorder, object);
}

void advance(Recorder& recorder, PyObject* iterator) {
  read_specials(recorder, iterator);
  PyTypeObject* type = Py_TYPE(iterator);
  bool suspends = PyGen_Check(iterator) || PyCoro_CheckExact(iterator);
  if (!suspends && (!type->tp_iternext || is_heap_type(type))) return;
  if (recorder.log.is_old(iterator))
    recorder.impure(Impure::Iterator,
                    fmt::format("moves on a {} that was made before", type->tp_name));
}

}  // namespace fulgurite::pystate
