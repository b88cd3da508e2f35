// What tests need of the room pystate.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>

#include "bindings/areas.h"
#include "pystate/place.h"
#include "pystate/recording.h"

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

using pystate::Effect;
using pystate::Recording;

// A recorded run of a function, for tests.
struct StateRecord {
  std::optional<Recording> recording;
  Recording::Outcome outcome;
  std::vector<pystate::Ref> tensors;
  nb::object result = nb::none(), error = nb::none();

  explicit StateRecord(Recording::Options options) { recording.emplace(std::move(options)); }

  void run(nb::callable function, nb::tuple arguments) {
    try {
      result = function(*arguments);
    } catch (nb::python_error& raised) {
      error = nb::borrow(raised.value());
    }
    recording->stop();
    outcome = recording->outcome();
    tensors = outcome.effects.take_tensors();
  }

  // Lets go of all but the guards and effects, which is what a compiled function keeps.
  void forget() {
    recording.reset();
    tensors.clear();
    result = error = nb::none();
  }
};

nb::list guards_of(const StateRecord& record) {
  nb::list result;
  for (const auto& guard : record.outcome.guards.describe())
    result.append(nb::make_tuple(guard.kind, guard.place, guard.file, guard.line));
  return result;
}

const char* name_of(pystate::EffectClass kind) {
  constexpr const char* names[] = {"exact", "tensor", "refuse"};
  return names[static_cast<int>(kind)];
}

nb::list effects_of(const StateRecord& record) {
  nb::list result;
  for (const Effect& effect : record.outcome.effects.list())
    result.append(nb::make_tuple(name_of(effect.kind_of_value), effect.what, effect.refusal,
                                 Recording::line_of(effect.where).line));
  return result;
}

nb::list impurities_of(const StateRecord& record) {
  nb::list result;
  for (const auto& impurity : record.recording->impurities())
    result.append(nb::make_tuple(pystate::name_of(impurity.kind), impurity.what,
                                 Recording::line_of(impurity.where).line, impurity.prevented));
  return result;
}

void replay(const StateRecord& record, nb::list tensors) {
  std::vector<PyObject*> given;
  for (nb::handle tensor : tensors) given.push_back(tensor.ptr());
  if (!record.outcome.effects.replay(given)) throw nb::python_error();
}

nb::list tensors_of(const StateRecord& record) {
  nb::list result;
  for (const auto& tensor : record.tensors) result.append(nb::borrow(tensor.get()));
  return result;
}

StateRecord* record_state(nb::callable function, nb::tuple arguments, nb::dict roots,
                          nb::set containers, nb::list raised, nb::object error_type) {
  Recording::Options options;
  for (auto [name, object] : roots)
    options.roots.push_back({nb::cast<std::string>(name), object.ptr(), containers.contains(name)});
  for (nb::handle name : raised)
    for (int kind = 0; kind < pystate::kImpureKinds; kind++)
      if (nb::cast<std::string>(name) == pystate::name_of(static_cast<pystate::Impure>(kind)))
        options.raised |= pystate::only(static_cast<pystate::Impure>(kind));
  options.error_type = error_type.ptr();
  auto record = std::make_unique<StateRecord>(std::move(options));
  record->run(std::move(function), std::move(arguments));
  return record.release();
}

void bind_recording(nb::module_& m) {
  nb::class_<StateRecord>(m, "StateRecord")
      .def_ro("result", &StateRecord::result)
      .def_ro("error", &StateRecord::error)
      .def_prop_ro("guards", guards_of)
      .def_prop_ro("effects", effects_of)
      .def_prop_ro("tensors", tensors_of)
      .def_prop_ro("impure", impurities_of)
      .def_prop_ro("complete", [](const StateRecord& r) { return r.recording->complete(); })
      .def_prop_ro("expired", [](const StateRecord& r) { return r.outcome.guards.expired(); })
      .def("check", [](StateRecord& r) { return r.outcome.guards.check(); })
      .def("explain", [](StateRecord& r) { return r.outcome.guards.explain(); })
      .def("undo", [](StateRecord& r) { return r.recording->undo(); })
      .def("replay", replay, nb::arg("tensors") = nb::list())
      .def("forget", &StateRecord::forget);
  m.def("record_state", record_state, nb::arg("function"), nb::arg("args") = nb::tuple(),
        nb::arg("roots") = nb::dict(), nb::arg("arguments") = nb::set(),
        nb::arg("raised") = nb::list(), nb::arg("error_type") = nb::none(),
        nb::rv_policy::take_ownership);
}

}  // namespace

void bind_pystate(nb::module_& m) {
  m.def("places_of", places_of, nb::arg("function"));
  bind_recording(m);
}

}  // namespace fulgurite
