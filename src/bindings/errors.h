// Our errors as Python exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include "base/error.h"

namespace fulgurite {

// Throws the error through an operator that Python called, as the Python exception it becomes.
void raise_in_python(const Unsupported& error);

// The Python class Unsupported, borrowed.
PyObject* unsupported_type();

// Sets the Python error for the exception that is being handled.
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
