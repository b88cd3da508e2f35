// What tests need of the room pystate.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/areas.h"
#include "pystate/place.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

using pystate::PlaceTracking;

// Calls `function(here)`; the places where it called `here`, as (file, line, function, text of the
// line, id of the module or None).
nb::list places_of(nb::callable function) {
  PlaceTracking tracking;
  std::vector<LanguageHooks::Place> places;
  auto here = [&places](nb::args) {
    nb::gil_scoped_release released;
    LanguageHooks::Place place;
    if (pystate::current_place(place)) places.push_back(place);
  };
  function(nb::cpp_function(here));
  nb::list result;
  for (const auto& place : places) {
    SourceLine source = pystate::source_of(place);
    nb::object module =
        place.module ? nb::int_(reinterpret_cast<uintptr_t>(place.module)) : nb::object(nb::none());
    result.append(nb::make_tuple(source.file, source.line, source.function, source.code, module));
  }
  return result;
}

}  // namespace

void bind_pystate(nb::module_& m) { m.def("places_of", places_of, nb::arg("function")); }

}  // namespace fulgurite
