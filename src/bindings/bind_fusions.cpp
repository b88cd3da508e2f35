// The regions of a compiled trace: their code, and running one by itself.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/error.h"
#include "bindings/areas.h"
#include "bindings/tensor_caster.h"
#include "compile/pipeline.h"
#include "runtime/instruction.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

using RegionPointer = std::shared_ptr<const CompiledRegion>;

std::vector<at::Tensor> run(const CompiledRegion& region, std::vector<at::Tensor> inputs) {
  if (inputs.size() != region.calls.inputs.size())
    user_error("{} takes {} tensors, got {}", region.name, region.calls.inputs.size(),
               inputs.size());
  const at::NoGradGuard no_grad;
  std::vector<RegionInput> given;
  for (at::Tensor& input : inputs) given.push_back({&input, false});
  c10::SmallVector<at::Tensor, 4> results;
  if (!region.code->run(given, results)) return execute(region.calls, std::move(inputs));
  return {results.begin(), results.end()};
}

std::vector<at::Tensor> last_inputs(const CompiledRegion& region) {
  if (!region.last_inputs) return {};
  const std::lock_guard lock(region.last_inputs->mutex);
  return region.last_inputs->tensors;
}

}  // namespace

void bind_fusions(nb::module_& m) {
  nb::class_<CompiledRegion>(m, "Region", "Machine code for several calls of a trace.")
      .def_ro("name", &CompiledRegion::name)
      .def_prop_ro("program", [](const CompiledRegion& r) { return r.code->program; })
      .def_prop_ro("text", [](const CompiledRegion& r) { return r.code->text; })
      .def_prop_ro("bytes", [](const CompiledRegion& r) { return r.code->bytes; })
      .def("assembly", [](const CompiledRegion& r) { return r.code->assembly(); })
      .def("run", &run, nb::arg("inputs"), "One new tensor per result.")
      .def(
          "time",
          [](const CompiledRegion& r, const std::vector<at::Tensor>& inputs, double seconds) {
            return r.code->time(inputs, seconds);
          },
          nb::arg("inputs"), nb::arg("seconds"),
          "Nanoseconds of one run into memory that is there already: the median.")
      .def_prop_ro("keeps_inputs", [](const CompiledRegion& r) { return r.last_inputs != nullptr; })
      .def_prop_ro("last_inputs", &last_inputs, "Empty before the first run.");
  m.def(
      "regions_of",
      [](const Compiled& compiled) {
        nb::list list;
        for (const RegionPointer& region : compiled.plan->regions())
          list.append(std::const_pointer_cast<CompiledRegion>(region));
        return list;
      },
      nb::arg("compiled"), "The regions that have code, in order.");
}

}  // namespace fulgurite
