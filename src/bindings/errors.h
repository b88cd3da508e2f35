// Our errors as Python exceptions.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>

#include "base/error.h"

namespace fulgurite {

// An error of Python code that runs far from where its exception could go through: it is raised as
// a UserError caused by it, or as itself: where it is no Exception (KeyboardInterrupt), or is asked
// to.
class PythonFailure : public UserError {
 public:
  PythonFailure(const std::string& text, nanobind::python_error&& error, bool as_itself)
      : UserError(text),
        error_(std::make_shared<nanobind::python_error>(std::move(error))),
        as_itself_(as_itself) {}

  void set_python_error() const noexcept;

 private:
  std::shared_ptr<nanobind::python_error> error_;  // which takes Python's lock to go
  bool as_itself_;
};

// Throws the error through an operator that Python called, as the Python exception it becomes.
void raise_in_python(const Unsupported& error);

// The Python class Unsupported, borrowed.
PyObject* unsupported_type();

// Sets the Python error for the exception that is being handled, with Python's lock.
void set_python_error() noexcept;

// A slot of a C type: what `f` returns, or null with a Python error set.
template <class F>
PyObject* with_python_errors(F&& f) {
  try {
    return f();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

}  // namespace fulgurite
