// One `bind_*` function per area, each in the file of that name.
#pragma once

#include <nanobind/nanobind.h>

namespace fulgurite {

void bind_errors(nanobind::module_& m);
void bind_trace(nanobind::module_& m);
void bind_entry(nanobind::module_& m);
void bind_function(nanobind::module_& m);
void bind_fusions(nanobind::module_& m);
void bind_ops(nanobind::module_& m);
void bind_state(nanobind::module_& m);
void bind_state_description(nanobind::module_& m);
void bind_passes(nanobind::module_& m);
void bind_pystate(nanobind::module_& m);
void bind_capture(nanobind::module_& m);
void bind_custom(nanobind::module_& m);
void bind_jit(nanobind::module_& m);
void bind_codegen(nanobind::module_& m);
void bind_loops(nanobind::module_& m);
void bind_memory(nanobind::module_& m);
void bind_profile(nanobind::module_& m);

}  // namespace fulgurite
