// Traces as Python objects.
#pragma once

#include <nanobind/nanobind.h>

namespace fulgurite {

void bind_trace(nanobind::module_& m);

}  // namespace fulgurite
