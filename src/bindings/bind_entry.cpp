// Entries, made of what Python found out about a captured call.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <iterator>

#include "base/error.h"
#include "bindings/areas.h"
#include "bindings/entry.h"
#include "bindings/key_description.h"
#include "bindings/tensor_caster.h"
#include "capture/tracer.h"
#include "compile/decisions.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

constexpr const char* kSources[] = {"argument", "lifted", "gradient", "state"};

InputSource read_source(nb::handle description) {
  const auto kind = nb::cast<std::string>(description[0]);
  for (uint8_t i = 0; i < std::size(kSources); ++i)
    if (kind == kSources[i])
      return {static_cast<InputSource::Kind>(i), nb::cast<int32_t>(description[1])};
  internal_error("no input source of kind {}", kind);
}

std::shared_ptr<Entry> make_entry(
    const CallKey& key, std::shared_ptr<Compiled> compiled, nb::list sources,
    std::vector<at::Tensor> lifted,
    const std::vector<std::tuple<int, std::vector<int>, at::Tensor>>& fetched,
    const std::vector<at::Tensor>& reads, std::shared_ptr<StateRecord> state, nb::handle output,
    nb::handle places, const Captured* captured, nb::object record) {
  auto entry = std::make_shared<Entry>(key);
  entry->lifted = std::move(lifted);
  entry->state = std::move(state);
  entry->record = std::move(record);
  for (const auto& [fact, path, tensor] : fetched)
    entry->places_of_tensors.emplace_back(fact, path, tensor);
  for (const at::Tensor& tensor : reads) entry->reads.emplace_back(tensor);
  if (compiled) entry->compiled = *compiled;
  entry->eager = compiled == nullptr;
  for (const at::Tensor& tensor : entry->lifted) entry->lifted_guards.emplace_back(tensor);
  for (nb::handle description : sources) {
    const InputSource source = read_source(description);
    entry->sources.push_back(source);
    if (source.kind == InputSource::Kind::Gradient)
      entry->gradient_guards.emplace_back(source.index, entry->lifted[source.index].grad());
  }
  if (!output.is_none()) entry->output = read_template(output);
  entry->places = read_places(places);
  if (captured && !captured->decisions.empty()) {
    Trace trace = captured->trace;
    trace.outputs.clear();
    for (const Taken& decision : captured->decisions) {
      trace.outputs.push_back(decision.number);
      entry->taken.push_back(decision.holds);
    }
    trace.output_tree = flat_tree(static_cast<int32_t>(trace.outputs.size()));
    entry->decisions = plan_of_decisions(std::move(trace));
    require(entry->decisions != nullptr, "decisions that were taken once cannot be taken again");
  }
  return entry;
}

nb::list lifted_types(const Entry& entry) {
  nb::list list;
  for (const TensorGuard& guard : entry.lifted_guards) list.append(describe_key(guard.type));
  return list;
}

// (number of the tensor whose gradient it is, type)
nb::list gradient_types(const Entry& entry) {
  nb::list list;
  for (const auto& [owner, guard] : entry.gradient_guards)
    list.append(nb::make_tuple(owner, describe_key(guard.type)));
  return list;
}

// (number of the guard, path within what is there, type, offset in the storage)
nb::list fetched_types(const Entry& entry) {
  nb::list list;
  for (const TensorPlace& place : entry.places_of_tensors)
    list.append(
        nb::make_tuple(place.fact, place.path, describe_key(place.guard.type), place.offset));
  return list;
}

nb::list reads_of(const Entry& entry) {
  nb::list list;
  for (const ReadTensor& read : entry.reads)
    list.append(nb::make_tuple(read.tensor, nb::bytes(read.bytes.data(), read.bytes.size())));
  return list;
}

nb::list sources_of(const Entry& entry) {
  nb::list list;
  for (const InputSource& source : entry.sources)
    list.append(nb::make_tuple(kSources[static_cast<size_t>(source.kind)], source.index));
  return list;
}

}  // namespace

void bind_entry(nb::module_& m) {
  nb::class_<Entry>(m, "Entry")
      .def_ro("record", &Entry::record)
      .def_ro("hits", &Entry::hits)
      .def_ro("eager", &Entry::eager)
      .def_ro("lifted", &Entry::lifted)
      .def_prop_ro("lifted_types", &lifted_types)
      .def_prop_ro("gradient_types", &gradient_types)
      .def_prop_ro("reads", &reads_of, "(tensor, bytes) of the data that it depends on")
      .def_prop_ro("fetched_types", &fetched_types)
      .def_prop_ro("sources", &sources_of, "(kind, number) for each input of its traces")
      .def_prop_ro(
          "other_gradients",
          [](const Entry& e) -> nb::object {
            const auto others = e.other_gradients();
            if (!others) return nb::none();
            return nb::make_tuple(others->given, others->by_calls_alone, others->autocast.word());
          },
          "(whether one came in, by output; whether no backward trace can serve such calls; the "
          "autocast that the backward pass ran under), or None.")
      .def("replace", &Entry::replace, nb::arg("program").none(),
           "Runs a Compiled of the same inputs and outputs from now on; None: the first one again.")
      .def_prop_ro(
          "compiled", [](const Entry& e) { return std::make_shared<Compiled>(e.compiled); },
          "The program that runs.")
      .def("changed", &Entry::changed, "What no longer holds of the tensors that it lifted; ''.");
  m.def("make_entry", &make_entry, nb::arg("key"), nb::arg("compiled").none(), nb::arg("sources"),
        nb::arg("lifted"), nb::arg("fetched"), nb::arg("reads"), nb::arg("state").none(),
        nb::arg("output").none(), nb::arg("places"), nb::arg("captured").none(), nb::arg("record"));
}

}  // namespace fulgurite
