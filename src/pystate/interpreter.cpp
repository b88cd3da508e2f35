#include "pystate/interpreter.h"

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030c0000
#error "the recorder of Python state knows the interpreter of CPython 3.11 only"
#endif

#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

namespace fulgurite::pystate {

const Frame* innermost_frame(PyThreadState* thread) noexcept {
  return thread->cframe->current_frame;
}

const Frame* caller_of(const Frame* frame) noexcept { return frame->previous; }

PyCodeObject* code_of(const Frame* frame) noexcept { return frame->f_code; }

int instruction_of(const Frame* frame) noexcept { return _PyInterpreterFrame_LASTI(frame); }

PyObject* first_parameter(const Frame* frame) noexcept {
  PyObject* value = frame->localsplus[0];
  return value && PyCell_Check(value) ? PyCell_GET(value) : value;
}

}  // namespace fulgurite::pystate
