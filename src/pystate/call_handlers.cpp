#include "pystate/call_handlers.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "pystate/attributes.h"
#include "pystate/containers.h"
#include "pystate/packages.h"
#include "pystate/recorder.h"

namespace fulgurite::pystate::handlers {
namespace {

// The named argument of an attribute access, or null.
PyObject* attribute_name(Recorder& recorder, const Call& call, size_t index) {
  if (call.arguments.size() <= index || !PyUnicode_Check(call.arguments[index])) return nullptr;
  Ref exact = Ref::steal(PyUnicode_FromObject(call.arguments[index]));  // not of a subclass
  return recorder.log.canonical_key(exact.get());
}

void refuse_identity(Recorder& recorder, std::span<PyObject* const> arguments, const char* what) {
  for (PyObject* argument : arguments)
    if (recorder.identify(argument)) recorder.impure(Impure::Identity, what);
}

// torch.FloatTensor and the like, alone or in a tuple.
bool names_legacy_type(PyObject* classes) {
  if (PyTuple_Check(classes)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); i++)
      if (names_legacy_type(PyTuple_GET_ITEM(classes, i))) return true;
    return false;
  }
  return std::string_view(Py_TYPE(classes)->tp_name) == "torch.tensortype";
}

}  // namespace

void nothing(Recorder&, const Call&) {}

void looks(Recorder& recorder, const Call& call) {
  if (call.self) read_specials(recorder, call.self);
  for (PyObject* argument : call.arguments) read_specials(recorder, argument);
}

void reads(Recorder& recorder, const Call& call) {
  if (call.self && call.self != call.callable) read_deeply(recorder, call.self);
  for (PyObject* argument : call.arguments) read_deeply(recorder, argument);
}

void makes(Recorder& recorder, const Call& call) {
  reads(recorder, call);
  recorder.expect_fresh(call.at);
}

void iterates(Recorder& recorder, const Call& call) {
  if (call.self && !PyType_Check(call.self)) read_contents(recorder, call.self);
  for (PyObject* argument : call.arguments) {
    if (is_atomic(argument)) continue;
    read_iterable(recorder, argument);
    if (Py_TYPE(argument)->tp_iternext) advance(recorder, argument);
    if (PyCallable_Check(argument)) read_callable(recorder, argument);
  }
  recorder.expect_fresh(call.at);
}

void gets_attribute(Recorder& recorder, const Call& call) {
  if (call.self && !PyModule_Check(call.self)) {
    if (PyObject* name = attribute_name(recorder, call, 0))
      read_attribute(recorder, call.self, name);
  } else if (PyObject* name = attribute_name(recorder, call, 1)) {
    read_attribute(recorder, call.arguments[0], name);
  }
}

void sets_attribute(Recorder& recorder, const Call& call) {
  if (PyObject* name = attribute_name(recorder, call, 1))
    write_attribute(recorder, call.arguments[0], name,
                    call.arguments.size() == 2 ? Change::Remove : Change::Set);
}

void sets_attribute_plainly(Recorder& recorder, const Call& call) {
  if (PyObject* name = attribute_name(recorder, call, 0))
    write_attribute_plainly(recorder, call.self, name,
                            call.arguments.size() == 1 ? Change::Remove : Change::Set);
}

void gets_length(Recorder& recorder, const Call& call) {
  PyObject* object = call.self ? call.self : call.arguments.empty() ? nullptr : call.arguments[0];
  if (object) read_length(recorder, object);
}

void identifies(Recorder& recorder, const Call& call) {
  looks(recorder, call);
  if (is_of_deepcopy(call.at.code)) return;
  refuse_identity(recorder, call.arguments, "takes the id() of a tensor among its arguments");
}

void hashes(Recorder& recorder, const Call& call) {
  reads(recorder, call);
  refuse_identity(recorder, call.arguments, "takes the hash() of a tensor among its arguments");
}

void checks_type(Recorder& recorder, const Call& call) {
  if (call.arguments.size() < 2) return;
  PyObject* object = call.arguments[0];
  if (is_tensor(object) && names_legacy_type(call.arguments[1]))
    recorder.impure(Impure::Identity,
                    "asks whether a tensor is a torch.FloatTensor or the like; ask for its dtype");
  read_specials(recorder, object);
  read_bases(recorder, PyType_Check(object) ? (PyTypeObject*)object : Py_TYPE(object));
  PyObject* classes = call.arguments[1];
  read_specials(recorder, classes);
  if (PyTuple_Check(classes))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); i++)
      read_specials(recorder, PyTuple_GET_ITEM(classes, i));
}

// The count itself may be what the program wants; that is told apart by a key.
void checks_registered(Recorder& recorder, const Call& call) {
  if (call.arguments.empty())
    return (void)recorder.log.read(Kind::Registrations, call.callable, Py_None);
  if (call.arguments.size() < 2) return;
  PyObject* object = call.arguments[1];
  read_specials(recorder, object);
  read_bases(recorder, PyType_Check(object) ? (PyTypeObject*)object : Py_TYPE(object));
  recorder.log.read(Kind::Registrations, call.callable);
  PyObject* type = PyType_Check(object) ? object : reinterpret_cast<PyObject*>(Py_TYPE(object));
  recorder.note_abstract_check(type, call.arguments[0]);
}

void advances(Recorder& recorder, const Call& call) {
  PyObject* iterator = call.self ? call.self : call.arguments.empty() ? nullptr : call.arguments[0];
  if (iterator) advance(recorder, iterator);
}

void gets_variables(Recorder& recorder, const Call& call) {
  if (!call.arguments.empty()) read_instance_dict(recorder, call.arguments[0]);
}

void shows(Recorder& recorder, const Call& call) {
  recorder.impure(Impure::Message, fmt::format("calls {}", describe_callable(call.callable)));
  recorder.pause(call.at);
}

void executes(Recorder& recorder, const Call& call) {
  static PyObject* const builtins = interned("__builtins__");
  if (call.arguments.size() > 1 && PyDict_Check(call.arguments[1]))
    write_key(recorder, call.arguments[1], builtins);
}

void imports(Recorder& recorder, const Call& call) {
  PyObject* modules = PySys_GetObject("modules");
  PyObject* name = attribute_name(recorder, call, 0);
  if (!modules || !name) return;
  bool first = !PyDict_GetItemWithError(modules, name);
  if (first) {
    recorder.impure(Impure::Import, fmt::format("imports {}", PyUnicode_AsUTF8(name)));
    recorder.pause(call.at);
  } else {
    recorder.log.read(Kind::Key, modules, name);
  }
}

void gets_slot(Recorder& recorder, const Call& call) {
  if (!call.self || call.arguments.empty() || call.arguments[0] == Py_None) return;
  PyObject* name = PyDescr_NAME(call.self);
  // A class in between has another attribute of that name.
  if (type_lookup(Py_TYPE(call.arguments[0]), name) != call.self)
    return recorder.impure(Impure::Unreviewed, "reads an attribute of a base class past another");
  read_slot(recorder, call.arguments[0], name);
}

void gets_type(Recorder& recorder, const Call& call) {
  if (call.arguments.size() != 1) return makes(recorder, call);
  PyObject* object = call.arguments[0];
  if (PyObject* what = what_it_stands_for(object))
    recorder.impure(Impure::Unreviewed,
                    fmt::format("asks for the type of {}", PyUnicode_AsUTF8(what)));
  read_specials(recorder, object);
}

void calls_type(Recorder& recorder, const Call& call) {
  PyObject* type = call.self;
  auto* meta = Py_TYPE(type);
  if (!PyType_Check(type) || meta->tp_call == PyType_Type.tp_call || !find_callee(type)) {
    if (PyType_Check(type) && meta->tp_call != PyType_Type.tp_call) {
      read_specials(recorder, type);  // its own __call__ in Python asks for this
      PyTypeObject* made = reinterpret_cast<PyTypeObject*>(type);
      if (made->tp_new == PyBaseObject_Type.tp_new) recorder.expect_fresh(call.at, made);
      return;
    }
  }
  observe_call(recorder, call.at, type, call.arguments, call.keywords);
}

void makes_object(Recorder& recorder, const Call& call) {
  for (PyObject* argument : call.arguments) read_deeply(recorder, argument);
  // Types keep instances for good that they make in C for themselves, not for subclasses.
  if (!call.arguments.empty() && PyType_Check(call.arguments[0]))
    recorder.expect_fresh(call.at, reinterpret_cast<PyTypeObject*>(call.arguments[0]));
}

void reduces(Recorder& recorder, const Call& call) {
  if (PyObject* state = read_instance_dict(recorder, call.self)) read_contents(recorder, state);
  read_deeply(recorder, call.self);
}

void gets_context_variable(Recorder& recorder, const Call& call) {
  recorder.log.read(Kind::ContextVar, call.self);
}

void sets_context_variable(Recorder& recorder, const Call& call) {
  if (!recorder.context) recorder.context = context_state();
  recorder.log.write(Kind::ContextVar, call.self);
}

void dereferences(Recorder& recorder, const Call& call) {
  recorder.log.read(Kind::Referent, call.self);
}

void calls_partial(Recorder& recorder, const Call& call) {
  PyObject* function = part_of(call.self, 0);
  PyObject* given = part_of(call.self, 1);
  PyObject* named = part_of(call.self, 2);
  recorder.log.read_parts(call.self);
  recorder.log.read(Kind::Contents, named);
  std::vector<PyObject*> all, names;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); i++)
    all.push_back(PyTuple_GET_ITEM(given, i));
  for (PyObject* argument : call.arguments) all.push_back(argument);
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(named, &at, &key, &value);) all.push_back(value);
  observe_call(recorder, call.at, function, all, nullptr);
}

// A lock that is given back by the run is none of its effects; whoever else holds it is waited for.
void takes_lock(Recorder& recorder, const Call& call) {
  if (recorder.log.is_fresh(call.self)) return;
  if (!call.arguments.empty())
    return recorder.impure(Impure::Outside, "takes a lock unless another thread holds it");
  recorder.hold_lock(call.self, 1);
}

void gives_back_lock(Recorder& recorder, const Call& call) {
  if (!recorder.log.is_fresh(call.self)) recorder.hold_lock(call.self, -1);
}

void changes_own(Recorder& recorder, const Call& call) {
  for (PyObject* argument : call.arguments) read_deeply(recorder, argument);
  if (!call.self || !recorder.log.is_fresh(call.self))
    recorder.impure(Impure::Unreviewed, fmt::format("calls {} on an object that was made before",
                                                    describe_callable(call.callable)));
  recorder.expect_fresh(call.at);
}

void gets_by_name(Recorder& recorder, const Call& call) {
  Ref parts = Ref::steal(PyObject_CallMethod(call.callable, "__reduce__", nullptr));
  PyObject* names = parts ? PyTuple_GetItem(parts.get(), 1) : nullptr;
  if (!names || call.arguments.empty()) return PyErr_Clear();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
    Ref path = Ref::steal(PyObject_CallMethod(PyTuple_GET_ITEM(names, i), "split", "s", "."));
    Ref object = Ref::borrow(call.arguments[0]);
    for (Py_ssize_t j = 0; path && object && j < PyList_GET_SIZE(path.get()); j++) {
      PyObject* name = recorder.log.canonical_key(PyList_GET_ITEM(path.get(), j));
      read_attribute(recorder, object.get(), name);
      if (j + 1 == PyList_GET_SIZE(path.get())) break;
      // The last step of a longer path starts from what the steps before it gave.
      PyObject** slot = instance_dict_slot(object.get());
      PyObject* next = slot && *slot ? PyDict_GetItemWithError(*slot, name) : nullptr;
      if (!next) recorder.impure(Impure::Unreviewed, "gets an attribute through a descriptor in C");
      object = Ref::borrow(next);
    }
  }
  PyErr_Clear();
}

void gets_by_key(Recorder& recorder, const Call& call) {
  Ref parts = Ref::steal(PyObject_CallMethod(call.callable, "__reduce__", nullptr));
  PyObject* keys = parts ? PyTuple_GetItem(parts.get(), 1) : nullptr;
  if (!keys || call.arguments.empty()) return PyErr_Clear();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); i++)
    read_item(recorder, call.arguments[0], PyTuple_GET_ITEM(keys, i));
}

}  // namespace fulgurite::pystate::handlers
