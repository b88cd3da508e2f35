// The regions of a compiled trace: their code, and running one by itself.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "base/error.h"
#include "bindings/areas.h"
#include "bindings/tensor_caster.h"
#include "compile/pipeline.h"
#include "executors/fused_cpu/copy_time.h"
#include "runtime/region_watch.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

using RegionPointer = std::shared_ptr<const CompiledRegion>;

void check_number(const CompiledRegion& region, const std::vector<at::Tensor>& inputs) {
  if (inputs.size() != region.calls.inputs.size())
    user_error("{} takes {} tensors, got {}", region.name, region.calls.inputs.size(),
               inputs.size());
}

std::vector<at::Tensor> run(const CompiledRegion& region, const std::vector<at::Tensor>& inputs) {
  check_number(region, inputs);
  const at::NoGradGuard no_grad;
  return run_region(region, inputs);
}

std::vector<at::Tensor> last_inputs(const CompiledRegion& region) {
  if (!region.last_inputs) return {};
  const std::lock_guard lock(region.last_inputs->mutex);
  return region.last_inputs->tensors;
}

// A block in which observe(region, inputs, fused, expected) hears of each run of a region.
struct Watching {
  nb::callable observe;
  std::optional<RegionWatch> watch;

  void enter() {
    watch.emplace([this](const WatchedRun& run) {
      nb::gil_scoped_acquire gil;
      observe(std::const_pointer_cast<CompiledRegion>(run.region), run.inputs, run.fused,
              run.expected);
    });
  }
  void exit() { watch.reset(); }
};

void bind_measures(nb::module_& m) {
  nb::class_<Watching>(m, "RegionWatch",
                       "A block in which this thread runs each region call by call, too, goes on "
                       "with what the calls give, and tells observe(region, inputs, fused, "
                       "expected), which must not raise.")
      .def(
          "__init__",
          [](Watching* self, nb::callable observe) {
            new (self) Watching{std::move(observe), std::nullopt};
          },
          nb::arg("observe"))
      .def("__enter__", &Watching::enter)
      .def("__exit__", [](Watching& watching, nb::args) { watching.exit(); });
  m.def("time_copy", &time_copy, nb::arg("bytes"), nb::arg("seconds"),
        nb::call_guard<nb::gil_scoped_release>(),
        "Nanoseconds of a copy that reads and writes so many bytes together.");
}

}  // namespace

void bind_fusions(nb::module_& m) {
  bind_measures(m);
  nb::class_<CompiledRegion>(m, "Region", nb::is_weak_referenceable(),
                             "Machine code for several calls of a trace.")
      .def_ro("name", &CompiledRegion::name)
      .def_prop_ro("program", [](const CompiledRegion& r) { return r.code->program; })
      .def_prop_ro(
          "text", [](const CompiledRegion& r) { return r.code->text; }, "As printed.")
      .def_prop_ro(
          "used_text", [](const CompiledRegion& r) { return r.code->used_text(); }, "That runs.")
      .def(
          "replace_text",
          [](const CompiledRegion& r, const std::string& text) { r.code->replace_text(text); },
          nb::arg("text"), nb::call_guard<nb::gil_scoped_release>(),
          "Runs another text from now on; '': the printed one again.")
      .def_prop_ro("bytes", [](const CompiledRegion& r) { return r.code->bytes; })
      .def("assembly", [](const CompiledRegion& r) { return r.code->assembly(); })
      .def("run", &run, nb::arg("inputs"), "One new tensor per result.")
      .def(
          "time",
          [](const CompiledRegion& r, const std::vector<at::Tensor>& inputs, double seconds) {
            check_number(r, inputs);
            return r.code->time(inputs, seconds);
          },
          nb::arg("inputs"), nb::arg("seconds"),
          "Nanoseconds of one run into memory that is there already: the median.")
      .def_prop_ro("keeps_inputs", [](const CompiledRegion& r) { return r.last_inputs != nullptr; })
      .def_prop_ro("last_inputs", &last_inputs, "Empty before the first run.");
  m.def(
      "regions_of",
      [](const Compiled& compiled, bool backward) {
        const Differentiated* both = compiled.differentiated.get();
        nb::list list;
        if (!both && backward) return list;
        const Plan& plan = !both ? *compiled.plan : backward ? both->backward() : both->forward();
        for (const RegionPointer& region : plan.regions())
          if (region->code->replace_text)
            list.append(std::const_pointer_cast<CompiledRegion>(region));
        return list;
      },
      nb::arg("compiled"), nb::arg("backward") = false,
      "The regions that have machine code, in order: of the program, or of its backward pass.");
}

}  // namespace fulgurite
