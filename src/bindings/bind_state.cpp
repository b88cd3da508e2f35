// The recording of Python state around a capture.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <unordered_set>

#include "bindings/areas.h"
#include "bindings/entry.h"
#include "bindings/errors.h"
#include "bindings/state_record.h"
#include "capture/tracer.h"
#include "pystate/facts.h"
#include "pystate/recording.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

using pystate::Impure;
using pystate::Recording;

// What must not happen during a capture is refused before it does. Data of tensors is the tracer's.
constexpr pystate::ImpureSet kRefused =
    pystate::kAllImpure & ~pystate::kHarmless & ~pystate::only(Impure::TensorData);

bool open_made(PyObject* object, pystate::Ref& build, pystate::Ref& parts) {
  const nb::object open = nb::module_::import_("fulgurite._objects").attr("open_made");
  const nb::object opened = open(nb::handle(object));
  if (opened.is_none()) return false;
  build = pystate::Ref::borrow(nb::object(opened[0]).ptr());
  parts = pystate::Ref::borrow(nb::object(opened[1]).ptr());
  return true;
}

class StateRecorder {
 public:
  StateRecorder(nb::dict roots, nb::list arguments, nb::list stand_ins) {
    for (auto [name, object] : roots)
      options_.roots.push_back({nb::cast<std::string>(name), object.ptr(), false});
    first_argument_ = static_cast<int>(options_.roots.size());
    for (nb::handle container : arguments)
      options_.roots.push_back({"an argument", container.ptr(), true});
    for (nb::handle tensor : stand_ins) options_.stand_ins.push_back(tensor.ptr());
    options_.raised = kRefused;
    options_.error_type = unsupported_type();
    options_.during_imports = [] { return std::make_shared<Tracer::Deaf>(); };
    options_.open = open_made;
  }

  void enter() { recording_.emplace(std::move(options_)); }
  void exit() { recording_->stop(); }

  // Calls `run()`; whether it changed state that was there before the capture.
  bool changes_state(nb::callable run) const {
    const auto before = recording_->written_values();
    run();
    return recording_->written_since(before);
  }

  bool drew_outside() const { return recording_ && recording_->drew_outside(); }
  bool complete() const { return recording_->complete(); }
  bool is_old(nb::handle object) const { return recording_->is_old(object.ptr()); }
  // Ends the recording, which may hold exceptions that hold the frames that hold this object.
  bool undo() {
    const bool undone = !recording_ || recording_->undo();
    recording_.reset();
    return undone;
  }

  // (kind, what, file, line) of what can neither be guarded nor repeated.
  nb::list impurities() const {
    nb::list list;
    for (const auto& impurity : recording_->impurities()) {
      const auto line = Recording::line_of(impurity.where);
      list.append(
          nb::make_tuple(pystate::name_of(impurity.kind), impurity.what, line.file, line.line));
    }
    return list;
  }

  std::shared_ptr<StateRecord> outcome() {
    Recording::Outcome outcome = recording_->outcome();
    auto record = std::make_shared<StateRecord>();
    record->guards = std::move(outcome.guards);
    record->effects = std::move(outcome.effects);
    record->first_argument = first_argument_;
    return record;
  }

 private:
  Recording::Options options_;
  int first_argument_ = 0;
  std::optional<Recording> recording_;
};

// (what, refusal, file, line) of each effect, in order.
nb::list effects_of(const StateRecord& record) {
  nb::list list;
  for (const pystate::Effect& effect : record.effects.list()) {
    const auto line = Recording::line_of(effect.where);
    list.append(nb::make_tuple(effect.what, effect.refusal, line.file, line.line));
  }
  return list;
}

// (kind, place, file, line) of each guard.
nb::list guards_of(const StateRecord& record) {
  nb::list list;
  for (const auto& guard : record.guards.describe())
    list.append(nb::make_tuple(guard.kind, guard.place, guard.file, guard.line));
  return list;
}

// The tensors whose gradients the program fetches.
nb::list gradient_owners(const StateRecord& record) {
  nb::list list;
  for (const pystate::Fact& fact : record.guards.facts().facts)
    if (fact.kind == pystate::Kind::Slot && pystate::is_tensor(fact.container) &&
        nb::cast<std::string>(nb::handle(fact.key.get())) == "grad")
      list.append(nb::borrow(fact.container));
  return list;
}

// {number of the tensor: (number of a guard, path within what is there)} of those that are another
// in each call.
nb::dict fetch(StateRecord& record, nb::list tensors, const ReplacedTensors& replaced,
               nb::list known) {
  nb::dict found;
  pystate::Facts* facts = record.guards.changeable_facts();
  if (!facts) return found;
  const auto may_be_another = [&](PyObject* object) {
    for (nb::handle tensor : known)
      if (tensor.ptr() == object) return false;
    if (pystate::is_tensor(object) && has_attributes(object)) return false;
    return !record.effects.concern(object);
  };
  // Most tensors are parameters, which nobody replaces: no search among all facts for each of them.
  std::unordered_set<PyObject*> candidates;
  using pystate::Kind;
  for (const pystate::Fact& fact : facts->facts) {
    const bool within = fact.kind == Kind::Part || fact.kind == Kind::Item ||
                        fact.kind == Kind::Contents || PyDict_CheckExact(fact.container);
    if (!fact.written && !within && fact.kind != Kind::Referent && replaced.places.empty())
      continue;
    candidates.insert(fact.value.object());
    for (const auto& element : fact.elements) candidates.insert(element.object());
  }
  for (size_t i = 0; i < nb::len(tensors); ++i) {
    const nb::handle tensor = tensors[i];
    if (!candidates.contains(tensor.ptr())) continue;
    if (const auto place = facts->fetch(tensor.ptr(), {replaced.places, may_be_another}))
      found[nb::int_(i)] = nb::make_tuple(place->fact, place->path);
  }
  if (nb::len(found)) record.guards.rebuild();
  return found;
}

// The tensors that the effects store: outputs of the program, in this order.
nb::list take_tensors(StateRecord& record) {
  nb::list list;
  for (const pystate::Ref& tensor : record.effects.take_tensors())
    list.append(nb::borrow(tensor.get()));
  record.effect_tensors = nb::len(list);
  return list;
}

// {id: number} of containers that the run made and returned.
void share_results(StateRecord& record, nb::dict numbers) {
  pystate::Effects::Numbers results;
  for (const auto& [id, number] : numbers)
    results.emplace(reinterpret_cast<PyObject*>(nb::cast<uintptr_t>(id)), nb::cast<int>(number));
  record.effects.share(results);
}

}  // namespace

void bind_state(nb::module_& m) {
  nb::class_<ReplacedTensors>(m, "ReplacedTensors");
  nb::class_<StateRecord>(m, "StateOutcome", "Guards on Python state, and effects on it.")
      .def_prop_ro("effects", &effects_of)
      .def_prop_ro("guards", &guards_of)
      .def_prop_ro("gradient_owners", &gradient_owners, "Right after the capture only.")
      .def_prop_ro("uses_arguments",
                   [](const StateRecord& record) { return !record.effects.arguments().empty(); })
      .def("fetch", &fetch, nb::arg("tensors"), nb::arg("replaced"), nb::arg("known"),
           "Lets the program take tensors from their places on each call: the number of the guard "
           "that says where, and which part of which part of a container there, by number of the "
           "tensor. Not those that have to be the ones they are, `known` among them.")
      .def("share_results", &share_results, nb::arg("numbers"),
           "What is stored and in the result, too, is one object: {id: number in the result}.")
      .def("take_tensors", &take_tensors);
  nb::class_<StateRecorder>(m, "StateRecorder", "Records what runs while it is entered.")
      .def(nb::init<nb::dict, nb::list, nb::list>(), nb::arg("roots"), nb::arg("arguments"),
           nb::arg("stand_ins"))
      .def("__enter__", &StateRecorder::enter)
      .def("__exit__", [](StateRecorder& r, nb::args) { r.exit(); })
      .def("changes_state", &StateRecorder::changes_state, nb::arg("run"))
      .def_prop_ro("drew_outside", &StateRecorder::drew_outside,
                   "whether something that is no part of the program drew random numbers")
      .def_prop_ro("complete", &StateRecorder::complete)
      .def_prop_ro("impurities", &StateRecorder::impurities)
      .def("is_old", &StateRecorder::is_old)
      .def("undo", &StateRecorder::undo)
      .def("outcome", &StateRecorder::outcome);
}

}  // namespace fulgurite
