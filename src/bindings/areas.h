// One function per area of the extension.
#pragma once

#include <nanobind/nanobind.h>

namespace fulgurite {

void bind_ops(nanobind::module_& m);

}  // namespace fulgurite
