#include "pystate/calls.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "pystate/attributes.h"
#include "pystate/callees.h"
#include "pystate/containers.h"
#include "pystate/recorder.h"

namespace fulgurite::pystate {
namespace {

struct Family {
  std::string_view module;
  Impure kind;
  const char* reason;
};

// Modules by what makes their functions impure. Not what makes others pure: those are in callees.
constexpr Family kFamilies[] = {
    {"time", Impure::Outside, "which reads the clock"},
    {"datetime", Impure::Outside, "which may read the clock"},
    {"_random", Impure::Random, "which draws from Python's random numbers"},
    {"random", Impure::Random, "which draws from Python's random numbers"},
    {"numpy.random", Impure::Random, "which draws from NumPy's random numbers"},
    {"posix", Impure::Outside, "which asks the operating system"},
    {"_io", Impure::Outside, "which reads or writes files"},
    {"io", Impure::Outside, "which reads or writes files"},
    {"_socket", Impure::Outside, "which uses the network"},
    {"select", Impure::Outside, "which waits for input"},
    {"_thread", Impure::Outside, "which has to do with threads"},
    {"signal", Impure::Outside, "which has to do with signals"},
    {"_posixsubprocess", Impure::Outside, "which starts a process"},
};

std::string text_of(PyObject* object, const char* attribute) {
  Ref value = Ref::steal(PyObject_GetAttrString(object, attribute));
  const char* text =
      value && PyUnicode_Check(value.get()) ? PyUnicode_AsUTF8(value.get()) : nullptr;
  std::string result = text ? text : "";
  PyErr_Clear();
  return result;
}

std::string type_name(PyTypeObject* type) {
  std::string_view name = type->tp_name;
  auto* object = reinterpret_cast<PyObject*>(type);
  if (is_heap_type(type))
    return text_of(object, "__module__") + "." + text_of(object, "__qualname__");
  return std::string(name);
}

bool is_descriptor(PyObject* callable) {
  PyTypeObject* type = Py_TYPE(callable);
  return type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type ||
         type == &PyWrapperDescr_Type;
}

void flag(Recorder& recorder, PyObject* callable, const char* verb) {
  std::string name = describe_callable(callable);
  for (const Family& family : kFamilies)
    if (name.starts_with(family.module) && name[family.module.size()] == '.')
      return recorder.impure(family.kind, fmt::format("{} {}, {}", verb, name, family.reason));
  recorder.impure(Impure::Unreviewed,
                  fmt::format("{} {}, which is not known to be without side effects", verb, name));
}

// An unknown callee reads and writes the containers that it gets.
void flag_call(Recorder& recorder, const Call& call) {
  flag(recorder, call.callable, "calls");
  auto touch = [&](PyObject* object) {
    read_deeply(recorder, object);
    write_contents(recorder, object);
  };
  if (call.self && call.self != call.callable) touch(call.self);
  for (PyObject* argument : call.arguments) touch(argument);
}

// Whether a type written in C needs no review: its objects are new and take nothing in.
bool is_trivial_base(PyTypeObject* type) {
  return type == &PyBaseObject_Type || PyExceptionClass_Check((PyObject*)type);
}

// The part of making an instance that a base written in C does.
void make_in_c(Recorder& recorder, const Call& call, PyTypeObject* base) {
  if (is_trivial_base(base)) return;
  if (const Callee* known = find_callee(reinterpret_cast<PyObject*>(base)))
    return known->handler(recorder, call);
  flag_call(recorder, call);
}

// A type made at run time: __new__ and __init__ are frames of their own unless they are inherited
// from a type in C.
void call_heap_type(Recorder& recorder, const Call& call) {
  static PyObject* const make = interned("__new__");
  static PyObject* const initialise = interned("__init__");
  static PyObject* const enter = interned("__call__");
  auto* type = reinterpret_cast<PyTypeObject*>(call.callable);
  read_specials(recorder, call.callable);
  PyObject* entry = type_lookup(Py_TYPE(type), enter);
  if (entry && PyFunction_Check(entry)) return;
  if (entry && Py_TYPE(entry) == &PyWrapperDescr_Type && PyDescr_TYPE(entry) != &PyType_Type)
    return flag_call(recorder, call);
  read_type(recorder, type, initialise);
  read_type(recorder, type, make);
  PyObject* initialiser = type_lookup(type, initialise);
  if (initialiser && Py_TYPE(initialiser) == &PyWrapperDescr_Type)
    make_in_c(recorder, call, PyDescr_TYPE(initialiser));
  PyObject* maker = type_lookup(type, make);
  if (!maker || !PyCFunction_Check(maker)) return;
  make_in_c(recorder, call, reinterpret_cast<PyTypeObject*>(PyCFunction_GET_SELF(maker)));
  recorder.expect_fresh(call.at, type);
}

void call_instance(Recorder& recorder, const Call& call) {
  static PyObject* const name = interned("__call__");
  PyTypeObject* type = Py_TYPE(call.callable);
  if (const Callee* known = find_instance_callee(type)) return known->handler(recorder, call);
  read_specials(recorder, call.callable);
  PyObject* function = type_lookup(type, name);
  if (is_heap_type(type) && function) {
    if (Py_TYPE(function) == &PyWrapperDescr_Type) {
      const Callee* known = find_instance_callee(PyDescr_TYPE(function));
      if (known) return known->handler(recorder, call);
    }
    bool in_python = PyFunction_Check(function) || is_heap_type(Py_TYPE(function)) ||
                     Py_TYPE(function) == &PyStaticMethod_Type ||
                     Py_TYPE(function) == &PyClassMethod_Type;
    if (in_python) return;
  }
  flag_call(recorder, call);
}

// Whether none of the arguments of a call comes to code in C.
bool is_called_in_python(PyObject* callable) {
  static PyObject* const enter = interned("__call__");
  static PyObject* const make = interned("__new__");
  static PyObject* const initialise = interned("__init__");
  PyObject* entry = type_lookup(Py_TYPE(callable), enter);
  if (entry && PyFunction_Check(entry)) return true;
  auto* type = reinterpret_cast<PyTypeObject*>(callable);
  if (!PyType_Check(callable) || !is_heap_type(type) || Py_TYPE(type) != &PyType_Type) return false;
  PyObject* initialiser = type_lookup(type, initialise);
  return initialiser && PyFunction_Check(initialiser) &&
         type_lookup(type, make) == type_lookup(&PyBaseObject_Type, make);
}

void call_python(Recorder& recorder, const Call& call) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(call.callable));
  if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR))
    recorder.expect_fresh(call.at);
  if (review_of(code).treatment != Treatment::Exempt) return;
  recorder.log.read(Kind::Function, call.callable);
  for (PyObject* argument : call.arguments) read_deeply(recorder, argument, Callables::Skip);
}

void call_bound(Recorder& recorder, const Instruction& at, PyObject* method,
                std::span<PyObject* const> arguments, PyObject* keywords) {
  std::vector<PyObject*> all{PyMethod_GET_SELF(method)};
  all.insert(all.end(), arguments.begin(), arguments.end());
  observe_call(recorder, at, PyMethod_GET_FUNCTION(method), all, keywords);
}

}  // namespace

size_t Call::positional() const {
  return arguments.size() - (keywords ? static_cast<size_t>(PyTuple_GET_SIZE(keywords)) : 0);
}

void observe_call(Recorder& recorder, const Instruction& at, PyObject* callable,
                  std::span<PyObject* const> arguments, PyObject* keywords) {
  if (PyMethod_Check(callable)) return call_bound(recorder, at, callable, arguments, keywords);
  Call call{callable, nullptr, arguments, keywords, at};
  if (PyFunction_Check(callable)) return call_python(recorder, call);
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    if (self && !PyModule_Check(self)) call.self = self;
  } else if (is_bound_slot(callable)) {
    call.self = bound_slot(callable).self;
  } else if (is_descriptor(callable) && !arguments.empty()) {
    call.self = arguments.front();
    call.arguments = arguments.subspan(1);
  } else if (PyType_Check(callable)) {
    bool heap = is_heap_type(reinterpret_cast<PyTypeObject*>(callable));
    if (heap && !find_callee(callable)) return call_heap_type(recorder, call);
    if (PyExceptionClass_Check(callable)) return recorder.expect_fresh(at);
  } else {
    call.self = callable;
    return call_instance(recorder, call);
  }
  if (const Callee* known = find_callee(callable)) return known->handler(recorder, call);
  flag_call(recorder, call);
}

void observe_call_of_unknown(Recorder& recorder, const Instruction& at, PyObject* callable) {
  if (PyFunction_Check(callable) || PyMethod_Check(callable)) return;
  if (is_partial(callable)) {
    recorder.log.add_old(callable, kUnknown);
    recorder.log.read_parts(callable);
    read_deeply(recorder, part_of(callable, 1));
    read_deeply(recorder, part_of(callable, 2));
    return observe_call_of_unknown(recorder, at, part_of(callable, 0));
  }
  if (is_called_in_python(callable))
    return observe_call(recorder, at, callable, {}, nullptr);  // frames of their own take them
  const Callee* known = find_callee(callable);
  if (!known || known->handed != Handed::Reads)
    return recorder.impure(Impure::Unreviewed, "calls C code with *arguments that are no tuple");
  read_callable(recorder, callable);
  recorder.expect_fresh(at);
}

void read_callable(Recorder& recorder, PyObject* callable) {
  if (PyFunction_Check(callable)) return;
  if (PyMethod_Check(callable)) return read_callable(recorder, PyMethod_GET_FUNCTION(callable));
  if (is_partial(callable)) {
    recorder.log.add_old(callable, kUnknown);
    read_deeply(recorder, part_of(callable, 1));
    read_deeply(recorder, part_of(callable, 2));
    return read_callable(recorder, part_of(callable, 0));
  }
  PyTypeObject* type = Py_TYPE(callable);
  bool plain = PyCFunction_Check(callable) || is_bound_slot(callable) || is_descriptor(callable) ||
               PyType_Check(callable);
  if (is_heap_type(type) && !plain) return;  // an object with a __call__ in Python
  if (PyType_Check(callable) && is_heap_type(reinterpret_cast<PyTypeObject*>(callable))) return;
  const Callee* known = plain ? find_callee(callable) : find_instance_callee(type);
  if (!known || known->handed == Handed::Unknown)
    return flag(recorder, callable, "hands to C code");
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable)
                   : is_bound_slot(callable)   ? bound_slot(callable).self
                                               : nullptr;
  if (!self || PyModule_Check(self) || PyType_Check(self)) return;
  read_contents(recorder, self);
  if (known->handed == Handed::Writes) write_contents(recorder, self);
}

std::string describe_callable(PyObject* callable) {
  if (is_bound_slot(callable)) callable = (PyObject*)bound_slot(callable).descriptor;
  if (is_descriptor(callable)) {
    auto* descriptor = reinterpret_cast<PyDescrObject*>(callable);
    return fmt::format("{}.{}()", type_name(descriptor->d_type),
                       PyUnicode_AsUTF8(descriptor->d_name));
  }
  if (PyType_Check(callable)) {
    auto* type = reinterpret_cast<PyTypeObject*>(callable);
    return type_name(type) + "()";
  }
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    std::string name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
    bool method = self && !PyModule_Check(self) &&
                  std::string_view(Py_TYPE(self)->tp_name).substr(0, 8) != "pybind11";
    if (method)
      return fmt::format("{}.{}()",
                         type_name(PyType_Check(self) ? (PyTypeObject*)self : Py_TYPE(self)), name);
    return fmt::format("{}.{}()", text_of(callable, "__module__"), name);
  }
  bool plain = Py_TYPE(callable)->tp_getattro == PyObject_GenericGetAttr;
  std::string name = plain ? text_of(callable, "__qualname__") : "";
  if (!name.empty()) return fmt::format("{}.{}()", text_of(callable, "__module__"), name);
  return fmt::format("a {} object", type_name(Py_TYPE(callable)));
}

}  // namespace fulgurite::pystate
