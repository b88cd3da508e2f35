// Everything that depends on the version of CPython. This is for 3.11.
#pragma once

#include <Python.h>

struct _PyInterpreterFrame;

namespace fulgurite::pystate {

using Frame = _PyInterpreterFrame;

// --- Frames of a thread. The functions of this section need no GIL when called on that thread.

// The innermost Python frame, or null.
const Frame* innermost_frame(PyThreadState* thread) noexcept;
const Frame* caller_of(const Frame* frame) noexcept;
PyCodeObject* code_of(const Frame* frame) noexcept;
// In code units, as PyCode_Addr2Line wants it when doubled.
int instruction_of(const Frame* frame) noexcept;
// The first parameter's value, looked up in its cell if a nested function uses it; null if gone.
PyObject* first_parameter(const Frame* frame) noexcept;

}  // namespace fulgurite::pystate
