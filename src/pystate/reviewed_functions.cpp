#include "pystate/reviewed_functions.h"

#include <fmt/format.h>

#include "pystate/attributes.h"
#include "pystate/containers.h"
#include "pystate/packages.h"
#include "pystate/recorder.h"

namespace fulgurite::pystate {
namespace {

PyObject* parameter(Frame* frame, int index) { return locals_of(frame)[index]; }

// From the instance dict; borrowed, null where absent.
PyObject* own_attribute(PyObject* object, const char* name) {
  PyObject** dict = object ? instance_dict_slot(object) : nullptr;
  return dict && *dict ? PyDict_GetItemWithError(*dict, interned(name)) : nullptr;
}

PyObject* global(Frame* frame, const char* name) {
  return PyDict_GetItemWithError(globals_of(frame), interned(name));
}

// --- enum: members that are combinations of others are made when they are asked for.

PyObject* members_by_value(PyObject* type) {
  static PyObject* const name = interned("_value2member_map_");
  PyObject* found = type && PyType_Check(type)
                        ? type_lookup(reinterpret_cast<PyTypeObject*>(type), name)
                        : nullptr;
  return found && PyDict_CheckExact(found) ? found : nullptr;
}

bool is_missing_made_by_enum(PyObject* type) {
  static PyObject* const name = interned("_missing_");
  PyObject* method = type_lookup(reinterpret_cast<PyTypeObject*>(type), name);
  PyObject* function =
      method && Py_TYPE(method) == &PyClassMethod_Type ? part_of(method, 0) : method;
  return function && PyFunction_Check(function) &&
         file_of(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function)))
             .ends_with("/enum.py");
}

bool makes_member(Recorder& recorder, Frame* frame) {
  PyObject *type = parameter(frame, 0), *value = parameter(frame, 1);
  PyObject* members = members_by_value(type);
  if (!members || !value || reinterpret_cast<PyObject*>(Py_TYPE(value)) == type) return false;
  PyObject* key = recorder.log.canonical_key(value);
  return key && !PyDict_GetItemWithError(members, key) && is_missing_made_by_enum(type);
}

void finds_member(Recorder& recorder, Frame* frame) {
  static PyObject* const name = interned("_value2member_map_");
  PyObject *type = parameter(frame, 0), *value = parameter(frame, 1);
  PyObject* members = members_by_value(type);
  if (!members || !value) return;
  read_type(recorder, reinterpret_cast<PyTypeObject*>(type), name);
  read_key(recorder, members, value);
}

// --- logging: loggers are made when they are asked for, and so is a handler that shows messages.

bool makes_logger(Recorder&, Frame* frame) {
  PyObject *manager = parameter(frame, 0), *name = parameter(frame, 1);
  PyObject* loggers = own_attribute(manager, "loggerDict");
  if (!loggers || !PyDict_CheckExact(loggers) || !name || !PyUnicode_CheckExact(name)) return false;
  bool plain = own_attribute(manager, "loggerClass") == Py_None &&
               global(frame, "_loggerClass") == global(frame, "Logger");
  PyObject* found = PyDict_GetItemWithError(loggers, name);
  PyObject* stand_in = global(frame, "PlaceHolder");
  return plain && (!found || reinterpret_cast<PyObject*>(Py_TYPE(found)) == stand_in);
}

void finds_logger(Recorder& recorder, Frame* frame) {
  PyObject *manager = parameter(frame, 0), *name = parameter(frame, 1);
  read_attribute(recorder, manager, interned("loggerDict"));
  if (PyObject* loggers = own_attribute(manager, "loggerDict")) read_key(recorder, loggers, name);
}

bool shows_first_message(Recorder& recorder, Frame* frame) {
  PyObject* handlers = own_attribute(global(frame, "root"), "handlers");
  if (!handlers || !PyList_CheckExact(handlers) || PyList_GET_SIZE(handlers)) return false;
  recorder.impure(Impure::Message,
                  fmt::format("calls logging.{}()", PyUnicode_AsUTF8(code_of(frame)->co_qualname)));
  return true;
}

// --- warnings: which of them are shown a second time depends on what was shown before.

bool enters_catch_warnings(Recorder& recorder, Frame* frame) {
  PyObject* records = own_attribute(parameter(frame, 0), "_record");
  if (records && records != Py_False)
    recorder.impure(Impure::Unreviewed, "collects warnings with warnings.catch_warnings()");
  return false;
}

// --- functools: the implementation for a class is looked for once.

bool dispatches_on_class(Recorder&, Frame* frame) { return function_of(frame) != nullptr; }

// It follows from the implementations that there are, the bases of the class, and whether an
// abstract class is among those (there is a token then) what counts as its subclass.
void finds_implementation(Recorder& recorder, Frame* frame) {
  static PyObject* const abc = PyImport_ImportModule("_abc");
  static PyObject* const check = abc ? PyObject_GetAttrString(abc, "_abc_subclasscheck") : nullptr;
  auto* function = reinterpret_cast<PyObject*>(function_of(frame));
  recorder.log.read(Kind::Function, function);
  recorder.log.read_parts(function);
  Ref names = Ref::steal(PyCode_GetFreevars(code_of(frame)));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names.get()); i++) {
    PyObject* name = PyTuple_GET_ITEM(names.get(), i);
    bool registry = PyUnicode_CompareWithASCIIString(name, "registry") == 0;
    if (!registry && PyUnicode_CompareWithASCIIString(name, "cache_token") != 0) continue;
    PyObject* cell = PyTuple_GET_ITEM(PyFunction_GET_CLOSURE(function), i);
    recorder.log.read(Kind::Cell, cell);
    PyObject* value = PyCell_GET(cell);
    if (registry && value) read_contents(recorder, value);
    if (!registry && value && value != Py_None && check)
      recorder.log.read(Kind::Registrations, check);
  }
  PyObject* type = parameter(frame, 0);
  if (type && PyType_Check(type)) read_bases(recorder, reinterpret_cast<PyTypeObject*>(type));
}

// --- numpy: the array that a function fills through an iterator over it, its first variable.

bool fills_array(Recorder&, Frame*) { return true; }

void gives_array(Recorder& recorder, Frame* frame) {
  PyCodeObject* code = code_of(frame);
  PyObject* array = parameter(frame, code->co_argcount + code->co_kwonlyargcount);
  if (array && is_array(array)) recorder.log.add_fresh(array);
}

// --- tqdm: a display, around an iterable that is the program's.

bool begins_progress(Recorder& recorder, Frame* frame) {
  PyObject *self = parameter(frame, 0), *iterable = parameter(frame, 1);
  recorder.impure(Impure::Message, "shows progress with tqdm");
  recorder.log.add_fresh(self);
  if (!iterable || iterable == Py_None) return true;
  read_iterable(recorder, iterable);
  if (Py_TYPE(iterable)->tp_iternext) advance(recorder, iterable);
  return true;
}

// --- transformers: a model gets the hooks that collect its inner results when it first runs.

bool installs_hooks(Recorder&, Frame* frame) {
  PyObject* installed = own_attribute(parameter(frame, 0), "_output_capturing_hooks_installed");
  return !installed || installed == Py_False;
}

void finds_hooks(Recorder& recorder, Frame* frame) {
  if (PyObject* model = parameter(frame, 0))
    read_attribute(recorder, model, interned("_output_capturing_hooks_installed"));
}

constexpr ReviewedFunction kFunctions[] = {
    {"/enum.py", "Enum.__new__", makes_member, finds_member},
    {"/logging/__init__.py", "Manager.getLogger", makes_logger, finds_logger},
    {"/logging/__init__.py", "critical", shows_first_message, nullptr},
    {"/logging/__init__.py", "error", shows_first_message, nullptr},
    {"/logging/__init__.py", "exception", shows_first_message, nullptr},
    {"/logging/__init__.py", "warning", shows_first_message, nullptr},
    {"/logging/__init__.py", "info", shows_first_message, nullptr},
    {"/logging/__init__.py", "debug", shows_first_message, nullptr},
    {"/logging/__init__.py", "log", shows_first_message, nullptr},
    {"/warnings.py", "catch_warnings.__enter__", enters_catch_warnings, nullptr},
    {"/functools.py", "singledispatch.<locals>.dispatch", dispatches_on_class,
     finds_implementation},
    {"/transformers/utils/output_capturing.py", "maybe_install_capturing_hooks", installs_hooks,
     finds_hooks},
    {"/numpy/lib/_twodim_base_impl.py", "eye", fills_array, gives_array},
    {"/tqdm/std.py", "tqdm.__init__", begins_progress, nullptr},
};

}  // namespace

const ReviewedFunction* reviewed_function(PyCodeObject* code) {
  std::string_view file = file_of(code);
  for (const ReviewedFunction& known : kFunctions)
    if (file.ends_with(known.file_end) &&
        PyUnicode_CompareWithASCIIString(code->co_qualname, known.function.data()) == 0)
      return &known;
  return nullptr;
}

}  // namespace fulgurite::pystate
