#include "bindings/errors.h"

#include <torch/csrc/Exceptions.h>

#include "bindings/areas.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

// The exception types; kept for the life of the process.
PyObject* g_user_error = nullptr;
PyObject* g_unsupported = nullptr;
PyObject* g_internal_error = nullptr;

PyObject* exception(nb::module_& m, const char* name, const char* doc, PyObject* base) {
  const std::string full = std::string("fulgurite.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, base, nullptr);
  if (!type) throw nb::python_error();
  m.attr(name) = nb::borrow(type);
  return type;
}

void set_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PythonFailure& e) {
    e.set_python_error();
  } catch (const Unsupported& e) {
    PyErr_SetString(g_unsupported, e.what());
  } catch (const UserError& e) {
    PyErr_SetString(g_user_error, e.what());
  } catch (const InternalError& e) {
    PyErr_SetString(g_internal_error, e.what());
  } catch (nb::python_error& e) {
    e.restore();
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
  }
}

}  // namespace

void PythonFailure::set_python_error() const noexcept {
  const nb::handle cause = error_->value();
  if (as_itself_ || !error_->matches(PyExc_Exception)) {
    PyErr_SetObject(error_->type().ptr(), cause.ptr());
    return;
  }
  PyErr_SetString(g_user_error, what());
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyException_SetCause(value, cause.inc_ref().ptr());
  PyErr_Restore(type, value, trace);
}

void set_python_error() noexcept { set_error(std::current_exception()); }

PyObject* unsupported_type() { return g_unsupported; }

void raise_in_python(const Unsupported& error) {
  nb::gil_scoped_acquire gil;
  PyErr_SetString(g_unsupported, error.what());
  ::python_error python;
  python.persist();
  throw python;
}

void bind_errors(nb::module_& m) {
  g_user_error =
      exception(m, "UserError", "The program, its arguments or an option cannot be used as given.",
                PyExc_RuntimeError);
  g_unsupported = exception(m, "Unsupported",
                            "The program cannot be compiled soundly; the text says where and why.",
                            g_user_error);
  g_internal_error =
      exception(m, "InternalError", "A fault of fulgurite itself.", PyExc_RuntimeError);
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const UserError&) {
      set_error(error);
    } catch (const InternalError&) {
      set_error(error);
    } catch (const c10::Error&) {
      set_error(error);
    } catch (::python_error&) {
      set_error(error);
    }
  });
}

}  // namespace fulgurite
