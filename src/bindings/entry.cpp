#include "bindings/entry.h"

#include <c10/util/flat_hash_map.h>

#include <algorithm>

#include "base/error.h"
#include "bindings/python_tensor.h"
#include "pystate/facts.h"
#include "pystate/interpreter.h"

namespace fulgurite {

namespace {

// Weak where possible: an entry does not keep the arguments of a call alive.
nb::object pin(PyObject* object) {
  PyObject* weak = PyWeakref_NewRef(object, nullptr);
  if (weak) return nb::steal(weak);
  PyErr_Clear();
  return nb::borrow(object);
}

bool is_alive(const nb::object& pinned) {
  return !PyWeakref_Check(pinned.ptr()) || PyWeakref_GetObject(pinned.ptr()) != Py_None;
}

bool has_gradient(const at::Tensor& owner, const TensorGuard& guard) {
  const at::Tensor& gradient = owner.grad();
  return gradient.defined() && guard.holds(gradient);
}

}  // namespace

TensorPlace::TensorPlace(int fact, std::vector<int> path, const at::Tensor& tensor)
    : fact(fact),
      path(std::move(path)),
      guard(tensor),
      offset(tensor.storage_offset()),
      nbytes(static_cast<int64_t>(tensor.storage().nbytes())),
      is_view(tensor.is_view()) {}

bool has_attributes(PyObject* tensor) {
  PyObject** attributes = pystate::instance_dict_slot(tensor);
  return attributes && *attributes && PyDict_GET_SIZE(*attributes);
}

bool TensorPlace::holds(PyObject* object) const {
  if (has_attributes(object)) return false;
  const at::Tensor& tensor = tensor_of(object);
  return guard.holds(tensor) && tensor.storage_offset() == offset && tensor.is_view() == is_view &&
         static_cast<int64_t>(tensor.storage().nbytes()) == nbytes;
}

CallKey::CallKey(const Arguments& arguments) : key(arguments.key) {
  for (PyObject* object : arguments.compared) compared.push_back(nb::borrow(object));
  for (PyObject* object : arguments.identified) pins.push_back(pin(object));
}

bool CallKey::matches(const Arguments& arguments) const {
  if (key != arguments.key || expired()) return false;
  c10::SmallVector<PyObject*, 8> mine;
  for (const nb::object& object : compared) mine.push_back(object.ptr());
  return equal_values(mine, arguments.compared);
}

bool CallKey::expired() const { return !std::all_of(pins.begin(), pins.end(), is_alive); }

bool Entry::expired() const {
  return key.expired() || (state && state->guards.expired()) ||
         (!is_replaced_ && other_gradients());
}

std::optional<OtherGradients> Entry::other_gradients() const {
  return compiled.differentiated ? compiled.differentiated->others() : std::nullopt;
}

bool Entry::holds(const Arguments& arguments) const {
  if (!is_replaced_ && other_gradients()) return false;
  std::vector<nb::object> containers;
  if (!places.places.empty() && !find_containers(places, arguments, containers)) return false;
  for (size_t i = 0; i < lifted.size(); ++i)
    if (!lifted_guards[i].holds(lifted[i])) return false;
  for (const auto& [owner, guard] : gradient_guards)
    if (!has_gradient(lifted[owner], guard)) return false;
  if (!keeps_containers_apart(arguments)) return false;
  if (!std::all_of(reads.begin(), reads.end(), [](const auto& r) { return r.unchanged(); }))
    return false;
  if (state && !state->guards.check()) return false;
  for (const TensorPlace& place : places_of_tensors)
    if (!place.holds(object_at(place).get())) return false;
  if (sharing && find_sharing(arguments) != *sharing) return false;
  return !decisions || decides_the_same(arguments);
}

pystate::Ref Entry::object_at(const TensorPlace& place) const {
  const pystate::Fact& fact = state->guards.facts().facts[static_cast<size_t>(place.fact)];
  pystate::Ref there = pystate::value_at(fact.kind, fact.container, fact.key.get());
  for (int part : place.path) there = pystate::Ref::borrow(pystate::part_in(there.get(), part));
  return there;
}

void Entry::watch_sharing(const Arguments& arguments) { sharing = find_sharing(arguments); }

std::vector<Entry::InMemory> Entry::find_sharing(const Arguments& arguments) const {
  std::vector<InMemory> found;
  std::vector<int64_t> offsets;
  ska::flat_hash_map<const c10::StorageImpl*, int32_t> known;
  for (const at::Tensor& input : inputs(arguments)) {
    const auto place = static_cast<int32_t>(offsets.size());
    offsets.push_back(input.storage_offset());
    const int32_t first =
        known.emplace(input.storage().unsafeGetStorageImpl(), place).first->second;
    found.push_back({first, offsets.back() - offsets[static_cast<size_t>(first)]});
  }
  return found;
}

// A change of a container among the arguments is none of one that the program has from elsewhere.
bool Entry::keeps_containers_apart(const Arguments& arguments) const {
  if (!state || state->effects.empty()) return true;
  const auto& holders = state->guards.facts().holders;
  return std::none_of(arguments.containers.begin(), arguments.containers.end(),
                      [&](PyObject* container) {
                        const auto found = holders.find(container);
                        return found != holders.end() && !found->second.argument;
                      });
}

bool Entry::decides_the_same(const Arguments& arguments) const {
  try {
    const std::vector<at::Tensor> now = decisions->run(inputs(arguments));
    for (size_t i = 0; i < taken.size(); ++i)
      if ((now[i].item().toDouble() != 0) != taken[i]) return false;
    return true;
  } catch (const c10::Error&) {  // the arithmetic fails, which the program is to say by itself
    return false;
  }
}

std::string Entry::changed() const {
  if (!is_replaced_ && other_gradients())
    return "gradients came in for other outputs than expected, or were differentiated themselves";
  for (size_t i = 0; i < lifted.size(); ++i)
    if (!lifted_guards[i].holds(lifted[i]))
      return fmt::format("{} has another dtype, shape, strides or requires_grad", name_of(i));
  for (const auto& [owner, guard] : gradient_guards)
    if (!has_gradient(lifted[owner], guard))
      return fmt::format("the gradient of {} is gone or has another type", name_of(owner));
  for (const ReadTensor& read : reads)
    if (!read.unchanged()) return "the data of a tensor that the function reads has changed";
  if (state && !state->guards.check()) return state->guards.explain();
  for (const TensorPlace& place : places_of_tensors) {
    if (place.holds(object_at(place).get())) continue;
    const pystate::Facts& facts = state->guards.facts();
    return fmt::format("{} has another dtype, shape, strides or requires_grad, or has attributes",
                       facts.path_of(facts.facts[static_cast<size_t>(place.fact)]));
  }
  return "";
}

void Entry::replace(const Compiled* program) {
  Compiled next = program ? *program : replaced_.empty() ? compiled : replaced_.front();
  replaced_.push_back(std::exchange(compiled, std::move(next)));
  is_replaced_ = program;
}

std::string Entry::name_of(size_t index) const {
  const Trace& trace = compiled.series.front();
  for (size_t i = 0; i < sources.size(); ++i)
    if (sources[i].kind == InputSource::Kind::Lifted &&
        sources[i].index == static_cast<int32_t>(index)) {
      const Input& input = trace.inputs[i];
      return input.path.empty() ? trace.values[input.id].name : input.path;
    }
  return "a parameter";
}

PyObject* Entry::finish(std::vector<at::Tensor> outputs, const Arguments& arguments) const {
  std::vector<nb::object> containers;
  if (!places.places.empty() && !find_containers(places, arguments, containers))
    internal_error("the containers among the arguments are no longer there");
  const size_t stored = state ? state->effect_tensors : 0;
  const std::vector<at::Tensor> effects(outputs.end() - static_cast<ptrdiff_t>(stored),
                                        outputs.end());
  std::vector<nb::object> made;
  nb::object result = nb::steal(build(output, outputs, containers, made));
  if (!result.is_valid() || (state && !state->replay(effects, containers, made))) return nullptr;
  return result.release().ptr();
}

std::vector<at::Tensor> Entry::inputs(const Arguments& arguments) const {
  std::vector<at::Tensor> r;
  r.reserve(sources.size());
  for (const InputSource& source : sources) switch (source.kind) {
      case InputSource::Kind::Argument:
        r.push_back(tensor_of(arguments.tensors[source.index]));
        break;
      case InputSource::Kind::Lifted:
        r.push_back(lifted[source.index]);
        break;
      case InputSource::Kind::Gradient:
        r.push_back(lifted[source.index].grad());
        break;
      case InputSource::Kind::State:
        r.push_back(
            tensor_of(object_at(places_of_tensors[static_cast<size_t>(source.index)]).get()));
        break;
    }
  return r;
}

}  // namespace fulgurite
