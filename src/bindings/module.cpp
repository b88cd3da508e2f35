// The extension fulgurite._C: one `bind_*` function per area.
#include <nanobind/nanobind.h>

namespace fulgurite {
void bind_pystate(nanobind::module_& m);
}  // namespace fulgurite

NB_MODULE(_C, m) {
  m.doc() = "The core of fulgurite.";
  fulgurite::bind_pystate(m);
}
