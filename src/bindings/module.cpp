// The extension fulgurite._C: one `bind_*` function per area.
#include <nanobind/nanobind.h>

NB_MODULE(_C, m) {
  m.doc() = "The core of fulgurite.";
  m.attr("__version__") = FULGURITE_VERSION;
}
