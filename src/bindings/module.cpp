// The extension fulgurite._C.
#include <nanobind/nanobind.h>

#include "bindings/areas.h"
#include "bindings/errors.h"
#include "bindings/language_hooks.h"
#include "capture/tracer.h"

NB_MODULE(_C, m) {
  // A compiled function that lives to the end of the process keeps its entries: no leak.
  nanobind::set_leak_warnings(false);
  m.doc() = "The core of fulgurite.";
  m.attr("__version__") = FULGURITE_VERSION;
  fulgurite::bind_errors(m);
  fulgurite::bind_trace(m);
  fulgurite::bind_ops(m);
  fulgurite::bind_state(m);
  fulgurite::bind_state_description(m);
  fulgurite::bind_passes(m);
  fulgurite::bind_pystate(m);
  fulgurite::bind_function(m);
  fulgurite::bind_fusions(m);
  fulgurite::bind_capture(m);
  fulgurite::bind_custom(m);
  fulgurite::bind_jit(m);
  fulgurite::bind_codegen(m);
  fulgurite::bind_loops(m);
  fulgurite::bind_memory(m);
  fulgurite::bind_profile(m);

  fulgurite::set_language_hooks({.place = fulgurite::current_place,
                                 .source = fulgurite::source_line,
                                 .module_path = fulgurite::module_path,
                                 .check = fulgurite::find_data_check,
                                 .indexes = fulgurite::is_indexing,
                                 .raise = fulgurite::raise_in_python,
                                 .unlocked = fulgurite::run_unlocked});
}
