#include "pystate/packages.h"

#include "pystate/ref.h"

namespace fulgurite::pystate {
namespace {

std::string directory_of(const char* package) {
  Ref module = Ref::steal(PyImport_ImportModule(package));
  Ref file = Ref::steal(module ? PyObject_GetAttrString(module.get(), "__file__") : nullptr);
  const char* path = file && PyUnicode_Check(file.get()) ? PyUnicode_AsUTF8(file.get()) : nullptr;
  if (!path) {
    PyErr_Clear();
    return "";
  }
  std::string_view text = path;
  return std::string(text.substr(0, text.rfind('/') + 1));
}

}  // namespace

const Packages& packages() {
  // Never freed: the interpreter may be gone when statics are destroyed.
  static const Packages& found = *[] {
    std::string torch = directory_of("torch");
    return new Packages{torch, torch + "nn/", directory_of("fulgurite"), directory_of("os")};
  }();
  return found;
}

bool is_of_deepcopy(PyCodeObject* code) {
  static const std::string& copying = *new std::string(packages().library + "copy.py");
  static const std::string& parameters = *new std::string(packages().torch_nn + "parameter.py");
  const std::string_view file = file_of(code);
  return file == copying || file == parameters;
}

std::string_view file_of(PyCodeObject* code) {
  const char* path = PyUnicode_AsUTF8(code->co_filename);
  if (!path) PyErr_Clear();
  return path ? path : "";
}

}  // namespace fulgurite::pystate
