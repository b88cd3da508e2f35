// The extension fulgurite._C: one `bind_*` function per area.
#include <nanobind/nanobind.h>

#include "bindings/bind_trace.h"
#include "bindings/errors.h"
#include "bindings/function.h"
#include "capture/tracer.h"

NB_MODULE(_C, m) {
  m.doc() = "The core of fulgurite.";
  fulgurite::bind_errors(m);
  fulgurite::bind_trace(m);
  fulgurite::bind_function(m);

  fulgurite::LanguageHooks hooks;
  hooks.raise = fulgurite::raise_in_python;
  fulgurite::set_language_hooks(hooks);
}
