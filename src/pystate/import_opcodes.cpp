#include "pystate/import_opcodes.h"

#include <fmt/format.h>

#include <string>

#include "pystate/attributes.h"
#include "pystate/recorder.h"

namespace fulgurite::pystate {
namespace {

// The full name of a module that is imported relative to the package of the code.
std::string absolute_name(const Instruction& at, long level) {
  static PyObject* const package_name = interned("__package__");
  std::string name = PyUnicode_AsUTF8(at.name(at.argument));
  if (level == 0) return name;
  PyObject* package = PyDict_GetItemWithError(globals_of(at.frame), package_name);
  if (!package || !PyUnicode_Check(package)) return name;
  std::string base = PyUnicode_AsUTF8(package);
  for (; level > 1 && base.rfind('.') != base.npos; level--) base.resize(base.rfind('.'));
  return name.empty() ? base : base + "." + name;
}

}  // namespace

void import_name(Recorder& r, const Instruction& at) {
  PyObject* modules = PySys_GetObject("modules");
  std::string name = absolute_name(at, PyLong_AsLong(at.top(1)));
  Ref key = Ref::steal(PyUnicode_FromStringAndSize(name.data(), (Py_ssize_t)name.size()));
  if (!modules || !key) return;
  if (!PyDict_GetItemWithError(modules, key.get())) {
    r.impure(Impure::Import, fmt::format("imports {}", name));
    return r.pause(at);
  }
  r.log.read(Kind::Key, modules, r.log.canonical_key(key.get()));
  size_t dot = name.find('.');
  if (dot == name.npos || at.top() != Py_None) return;
  Ref package = Ref::steal(PyUnicode_FromStringAndSize(name.data(), (Py_ssize_t)dot));
  r.log.read(Kind::Key, modules, r.log.canonical_key(package.get()));
}

// What a module lacks may be a module inside of it.
void import_from(Recorder& r, const Instruction& at) {
  PyObject* module = at.top();
  PyObject* name = at.name(at.argument);
  read_attribute(r, module, name);
  if (!PyModule_Check(module) || PyDict_GetItemWithError(PyModule_GetDict(module), name)) return;
  const char* package = PyModule_GetName(module);
  PyObject* modules = PySys_GetObject("modules");
  if (!package || !modules) return PyErr_Clear();
  Ref key = Ref::steal(PyUnicode_FromFormat("%s.%U", package, name));
  if (key) r.log.read(Kind::Key, modules, r.log.canonical_key(key.get()));
}

void import_all(Recorder& r, const Instruction&) {
  r.impure(Impure::Unreviewed, "imports all names of a module");
}

}  // namespace fulgurite::pystate
