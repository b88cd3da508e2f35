// What place.h is told by the recorder.
#pragma once

#include <Python.h>

namespace fulgurite::pystate {

// Code that is about to run, so that current_place() need not take the GIL for it. Nothing happens
// if this thread tracks no places.
void expect_code(PyCodeObject* code);

}  // namespace fulgurite::pystate
