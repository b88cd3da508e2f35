// The extension fulgurite._C: one `bind_*` function per area.
#include <nanobind/nanobind.h>

#include "bindings/areas.h"

NB_MODULE(_C, m) {
  m.doc() = "The core of fulgurite.";
  fulgurite::bind_ops(m);
}
