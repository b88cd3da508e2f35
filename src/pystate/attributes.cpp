#include "pystate/attributes.h"

#include <fmt/format.h>

#include <string_view>

#include "pystate/recorder.h"

namespace fulgurite::pystate {
namespace {

bool equals(PyObject* name, const char* text) {
  return PyUnicode_CompareWithASCIIString(name, text) == 0;
}

bool is_c_data_descriptor(PyObject* descriptor) {
  return Py_TYPE(descriptor) == &PyGetSetDescr_Type || Py_TYPE(descriptor) == &PyMemberDescr_Type;
}

// A data descriptor whose getter is no frame of Python's: a field of a ctypes structure.
bool is_field_in_c(PyObject* descriptor) {
  PyTypeObject* type = Py_TYPE(descriptor);
  return !is_heap_type(type) && type != &PyProperty_Type;
}

// The type's C code looks attributes up in a way of its own, such as threading.local.
bool has_own_lookup(PyTypeObject* type) {
  static PyObject* const name = interned("__getattribute__");
  PyObject* lookup = type_lookup(type, name);
  if (!lookup || Py_TYPE(lookup) != &PyWrapperDescr_Type) return false;
  auto* wrapper = reinterpret_cast<PyWrapperDescrObject*>(lookup);
  PyTypeObject* owner = PyDescr_TYPE(lookup);
  return wrapper->d_wrapped != reinterpret_cast<void*>(PyObject_GenericGetAttr) &&
         owner != &PyModule_Type && owner != &PyType_Type && owner != &PyMethod_Type;
}

bool is_overridden(PyTypeObject* type, PyObject* name) {
  PyObject* found = type_lookup(type, name);
  return found && Py_TYPE(found) != &PyWrapperDescr_Type;
}

// What a tensor says of its past, which a traced one does not have.
bool is_past(PyObject* name) {
  for (const char* past : {"_version", "_base", "_backward_hooks", "retains_grad", "output_nr"})
    if (equals(name, past)) return true;
  return false;
}

// What a tensor says of its place in autograd. Its shape, dtype and the like are guarded with the
// tensor; the rest are operators.
bool is_tensor_state(PyObject* name) {
  for (const char* state : {"grad", "_grad", "grad_fn", "_grad_fn", "name"})
    if (equals(name, state)) return true;
  return is_past(name);
}

// torch.ops, its namespaces and operators keep what they have looked up once: what they hold
// counts, not that nobody had asked for it.
void fill_operators(PyObject* object, PyObject* dict, PyObject* name) {
  static PyObject* const module = interned("__module__");
  if (!is_heap_type(Py_TYPE(object)) || PyDict_GetItemWithError(dict, name)) return;
  PyObject* made_in = PyDict_GetItemWithError(Py_TYPE(object)->tp_dict, module);
  if (!made_in || !PyUnicode_Check(made_in) || !equals(made_in, "torch._ops")) return;
  if (!Ref::steal(PyObject_GetAttr(object, name))) PyErr_Clear();
}

void read_instance_entry(Recorder& recorder, PyObject* object, PyObject* name) {
  static PyObject* const fallback = interned("__getattr__");
  PyObject* dict = read_instance_dict(recorder, object);
  if (!dict) return;
  fill_operators(object, dict, name);
  recorder.log.read(Kind::Key, dict, name);
  if (PyModule_Check(object) && !PyDict_GetItemWithError(dict, name))
    recorder.log.read(Kind::Key, dict, fallback);
}

void read_class_attribute(Recorder& recorder, PyObject* object, PyObject* name) {
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  PyTypeObject* meta = Py_TYPE(object);
  if (is_heap_type(meta)) recorder.log.read(Kind::Class, object);
  read_type(recorder, meta, name);
  PyObject* descriptor = type_lookup(meta, name);
  if (!is_heap_type(type)) return;
  if (!descriptor || !is_c_data_descriptor(descriptor)) return read_type(recorder, type, name);
  if (equals(name, "__mro__") || equals(name, "__bases__") || equals(name, "__base__"))
    return read_bases(recorder, type);
  if (equals(name, "__dict__") || equals(name, "__class__")) return;
  read_slot(recorder, object, name);
}

// super().name looks at each class after the one that is named, up to where it finds it.
void read_super_attribute(Recorder& recorder, PyObject* object, PyObject* name) {
  SuperParts parts = super_parts(object);
  if (!parts.start || !parts.start->tp_mro) return;
  read_bases(recorder, parts.start);
  PyObject* order = parts.start->tp_mro;
  Py_ssize_t index = 0, count = PyTuple_GET_SIZE(order);
  while (index < count && PyTuple_GET_ITEM(order, index) != (PyObject*)parts.type) index++;
  for (index++; index < count; index++) {
    PyObject* base = PyTuple_GET_ITEM(order, index);
    if (is_heap_type((PyTypeObject*)base)) recorder.log.read(Kind::TypeEntry, base, name);
    if (PyDict_GetItemWithError(((PyTypeObject*)base)->tp_dict, name)) break;
  }
}

}  // namespace

void read_slot(Recorder& recorder, PyObject* object, PyObject* name) {
  if (is_constant(object) || (is_tensor(object) && !is_tensor_state(name))) return;
  if (PyFunction_Check(object)) {
    recorder.log.read(Kind::Function, object);
    if (equals(name, "__code__") || equals(name, "__defaults__")) return;
  }
  Ref once = value_at(Kind::Slot, object, name), again = value_at(Kind::Slot, object, name);
  if (same_value(Kind::Slot, once.get(), again.get())) {
    recorder.log.read(Kind::Slot, object, name);
  } else {
    recorder.impure(Impure::Unreviewed,
                    fmt::format("reads {} of a {}, which gives a new object each time",
                                PyUnicode_AsUTF8(name), Py_TYPE(object)->tp_name));
  }
}

void read_specials(Recorder& recorder, PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!is_heap_type(type)) return;
  if (recorder.log.is_old(object)) recorder.log.read(Kind::Class, object);
  recorder.log.read(Kind::Specials, reinterpret_cast<PyObject*>(type));
}

namespace {

// Whether looking the name up on the type gives what the run has put there.
bool is_from_the_run(const Log& log, PyTypeObject* type, PyObject* name) {
  PyObject* order = type->tp_mro;
  for (Py_ssize_t i = 0; order && i < PyTuple_GET_SIZE(order); i++) {
    PyObject* base = PyTuple_GET_ITEM(order, i);
    if (!PyDict_GetItemWithError(reinterpret_cast<PyTypeObject*>(base)->tp_dict, name)) continue;
    const LocationId entry = log.find(Kind::TypeEntry, base, name);
    return entry != kUnknown && log.locations()[static_cast<size_t>(entry)].written;
  }
  return false;
}

}  // namespace

void read_type(Recorder& recorder, PyTypeObject* type, PyObject* name) {
  if (!is_heap_type(type)) return;
  recorder.log.read(Kind::Specials, reinterpret_cast<PyObject*>(type));
  if (is_from_the_run(recorder.log, type, name)) return;
  recorder.log.read(Kind::TypeAttribute, reinterpret_cast<PyObject*>(type), name);
}

void read_bases(Recorder& recorder, PyTypeObject* type) {
  if (is_heap_type(type)) recorder.log.read(Kind::Bases, reinterpret_cast<PyObject*>(type));
}

PyObject* read_instance_dict(Recorder& recorder, PyObject* object) {
  PyObject** slot = instance_dict_slot(object);
  if (!slot || !*slot) return nullptr;
  if (recorder.log.is_fresh(object)) {
    recorder.log.add_fresh(*slot);
    return nullptr;
  }
  recorder.log.read(Kind::InstanceDict, object);
  return *slot;
}

void read_attribute(Recorder& recorder, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  if (PyType_Check(object)) return read_class_attribute(recorder, object, name);
  if (type == &PySuper_Type) return read_super_attribute(recorder, object, name);
  if (type == &PyMethod_Type && !type_lookup(type, name))
    return read_attribute(recorder, PyMethod_GET_FUNCTION(object), name);
  Log& log = recorder.log;
  if (is_heap_type(type)) {
    if (log.is_old(object)) log.read(Kind::Class, object);
    read_type(recorder, type, name);
  }
  if (is_atomic(object)) return;
  PyObject* descriptor = type_lookup(type, name);
  if (log.is_fresh(object)) {
    if (equals(name, "__dict__")) read_instance_dict(recorder, object);
    if (is_tensor(object) && is_past(name))
      recorder.impure(Impure::Identity,
                      fmt::format("reads the {} of a traced tensor", PyUnicode_AsUTF8(name)));
    return;
  }
  if (descriptor && is_c_data_descriptor(descriptor)) {
    if (equals(name, "__class__")) return;
    if (equals(name, "__dict__")) return (void)read_instance_dict(recorder, object);
    return read_slot(recorder, object, name);
  }
  // One that is only set leaves what is read to the instance.
  if (descriptor && Py_TYPE(descriptor)->tp_descr_set && Py_TYPE(descriptor)->tp_descr_get)
    return is_field_in_c(descriptor) ? read_slot(recorder, object, name) : void();
  if (has_own_lookup(type)) return read_slot(recorder, object, name);
  read_instance_entry(recorder, object, name);
}

void write_attribute(Recorder& recorder, PyObject* object, PyObject* name, Change change) {
  static PyObject* const setter = interned("__setattr__");
  static PyObject* const deleter = interned("__delattr__");
  PyTypeObject* type = Py_TYPE(object);
  read_specials(recorder, object);
  if (is_overridden(type, setter) || is_overridden(type, deleter)) return;
  write_attribute_plainly(recorder, object, name, change);
}

void write_attribute_plainly(Recorder& recorder, PyObject* object, PyObject* name, Change change) {
  PyTypeObject* type = Py_TYPE(object);
  Log& log = recorder.log;
  if (recorder.identify(object) && (equals(name, "grad") || !type_lookup(type, name)))
    return recorder.impure(Impure::TensorState,
                           fmt::format("sets the attribute {} of a tensor among its arguments",
                                       PyUnicode_AsUTF8(name)));
  if (log.is_fresh(object)) {
    if (equals(name, "__dict__"))
      recorder.impure(Impure::Unreviewed, "gives a new object a __dict__ that may not be its own");
    return;
  }
  PyObject* descriptor = type_lookup(type, name);
  bool in_c = descriptor && is_c_data_descriptor(descriptor);
  if (is_heap_type(type)) read_type(recorder, type, name);
  if (is_tensor(object) && in_c && equals(name, "data"))
    return recorder.impure(Impure::TensorState, "replaces the data of a tensor");
  if (in_c && equals(name, "__class__")) log.read(Kind::Class, object);
  auto note = [&](Kind kind, PyObject* container) {
    // Removing what is not there is an error.
    Kind needed = kind == Kind::Key ? Kind::Present : kind;
    if (change == Change::Remove) log.read(needed, container, name);
    log.write(kind, container, name);
  };
  if (in_c || has_own_lookup(type)) return note(Kind::Slot, object);
  if (PyType_Check(object)) return note(Kind::TypeEntry, object);
  if (descriptor && Py_TYPE(descriptor)->tp_descr_set) return;
  if (PyObject* dict = read_instance_dict(recorder, object)) note(Kind::Key, dict);
}

}  // namespace fulgurite::pystate
