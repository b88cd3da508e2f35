// The callable that `fulgurite.jit` returns for a function: a vectorcall object that finds the
// entry for a call, runs it, and asks Python to compile where there is none.
#pragma once

#include <nanobind/nanobind.h>

namespace fulgurite {

// Adds the type `Function` and what Python needs to fill it to the module.
void bind_function(nanobind::module_& m);

}  // namespace fulgurite
