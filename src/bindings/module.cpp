// The extension fulgurite._C.
#include <nanobind/nanobind.h>

#include "bindings/areas.h"
#include "bindings/errors.h"
#include "capture/tracer.h"

NB_MODULE(_C, m) {
  m.doc() = "The core of fulgurite.";
  m.attr("__version__") = FULGURITE_VERSION;
  fulgurite::bind_errors(m);
  fulgurite::bind_trace(m);
  fulgurite::bind_ops(m);
  fulgurite::bind_pystate(m);
  fulgurite::bind_function(m);
  fulgurite::bind_capture(m);
  fulgurite::bind_jit(m);

  fulgurite::LanguageHooks hooks;
  hooks.raise = fulgurite::raise_in_python;
  fulgurite::set_language_hooks(hooks);
}
