// The passes, one by one, for tests and for the curious.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/areas.h"
#include "executors/aten/aten.h"
#include "passes/passes.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

Trace merge_equal(const Trace& trace) { return common_subexpressions(trace); }

template <Trace (*pass)(const Trace&)>
std::shared_ptr<Trace> run(const Trace& trace) {
  return std::make_shared<Trace>(pass(trace));
}

std::shared_ptr<Trace> place_with_aten(const Trace& trace) {
  const Executor executors[] = {aten_executor()};
  return std::make_shared<Trace>(place(trace, executors));
}

// What the trace does before its epilogue; without outputs.
std::shared_ptr<Trace> pure_part(const Trace& trace) {
  auto part = std::make_shared<Trace>(trace);
  if (trace.epilogue >= 0) part->calls.resize(trace.epilogue);
  part->epilogue = -1;
  part->outputs.clear();
  part->output_tree = flat_tree(0);
  return part;
}

}  // namespace

void bind_passes(nb::module_& m) {
  nb::module_ passes = m.def_submodule("passes", "Trace to trace.");
  passes.def("functionalise", &run<functionalise>, nb::arg("trace"));
  passes.def("dead_code", &run<dead_code>, nb::arg("trace"));
  passes.def("common_subexpressions", &run<merge_equal>, nb::arg("trace"));
  passes.def("fold", &run<fold>, nb::arg("trace"));
  passes.def("place", &place_with_aten, nb::arg("trace"), "Every call given to ATen.");
  passes.def("delete_last_used", &run<delete_last_used>, nb::arg("trace"));
  passes.def("pure_part", &pure_part, nb::arg("trace"),
             "What a functionalised trace does before its epilogue.");
}

}  // namespace fulgurite
