// Times of the calls of plans.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bindings/areas.h"
#include "compile/pipeline.h"
#include "runtime/line_clock.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

// A block in which the plans that this thread runs are timed.
struct Timing {
  std::unique_ptr<LineClock> clock;
  std::vector<TimedRun> runs;

  void enter() { clock = std::make_unique<LineClock>(); }
  void exit() {
    runs = clock->take();
    clock.reset();
  }
};

uintptr_t number_of(const void* program) { return reinterpret_cast<uintptr_t>(program); }

}  // namespace

void bind_profile(nb::module_& m) {
  nb::class_<Timing>(m, "LineClock",
                     "A block in which the programs that this thread runs are timed call by call.")
      .def(nb::init<>())
      .def(
          "__enter__",
          [](Timing& timing) -> Timing& {
            timing.enter();
            return timing;
          },
          nb::rv_policy::reference)
      .def("__exit__", [](Timing& timing, nb::args) { timing.exit(); })
      .def_prop_ro(
          "runs",
          [](const Timing& timing) {
            nb::list list;
            for (const TimedRun& run : timing.runs)
              list.append(nb::make_tuple(number_of(run.program), run.nanoseconds, run.lines));
            return list;
          },
          "Afterwards: (program_ids, nanoseconds, nanoseconds of each call of the trace) for each "
          "run.");
  m.def(
      "program_ids",
      [](const Compiled& compiled) {
        const Differentiated* both = compiled.differentiated.get();
        const Plan& forward = both ? both->forward() : *compiled.plan;
        return nb::make_tuple(number_of(forward.id()), both ? number_of(both->backward().id()) : 0);
      },
      nb::arg("compiled"), "Of the program, and of its backward pass, which is 0 without one.");
}

}  // namespace fulgurite
