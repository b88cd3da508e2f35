#include "pystate/facts.h"

#include <algorithm>

#include "pystate/interpreter.h"

namespace fulgurite::pystate {

Expected::Expected(PyObject* object) : object_(object) {
  if (!object) return;
  if (is_constant(object)) {
    keeper_ = Ref::borrow(object);
  } else if (PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) {
    keeper_ = Ref::steal(PyWeakref_NewRef(object, nullptr));
    weak_ = static_cast<bool>(keeper_);
    if (!weak_) PyErr_Clear();
  } else if (!PyType_IS_GC(Py_TYPE(object))) {
    keeper_ = Ref::borrow(object);  // it cannot keep much alive
  }
}

Expected Expected::anything() {
  Expected any;
  any.any_ = true;
  return any;
}

PyObject* Expected::alive() const {
  if (!keeper_) return nullptr;
  if (!weak_) return object_;
  PyObject* found = weak()->wr_object;
  return found == Py_None ? nullptr : found;
}

bool Expected::equals(PyObject* now) const {
  if (any_) return now;
  return now && object_ && keeper_ && !weak_ && same_constant(object_, now);
}

namespace {

std::vector<Expected> expect_elements(PyObject* entry) {
  std::vector<Expected> elements;
  if (PyTuple_Check(entry))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(entry); i++)
      elements.emplace_back(PyTuple_GET_ITEM(entry, i));
  PyObject* element;
  Py_hash_t hash;
  if (PyAnySet_Check(entry))
    for (Py_ssize_t at = 0; _PySet_NextEntry(entry, &at, &element, &hash);)
      elements.emplace_back(element);
  return elements;
}

// The values of the keys that were replaced before anyone looked do not count.
void allow_any(std::vector<Expected>& elements, PyObject* contents, PyObject* replaced) {
  for (size_t i = 0; i + 1 < elements.size(); i += 2)
    if (PySet_Contains(replaced, PyTuple_GET_ITEM(contents, static_cast<Py_ssize_t>(i))) == 1)
      elements[i + 1] = Expected::anything();
  PyErr_Clear();
}

bool set_matches(const std::vector<Expected>& elements, PyObject* set) {
  if (PySet_GET_SIZE(set) != static_cast<Py_ssize_t>(elements.size())) return false;
  std::vector<PyObject*> now;
  PyObject* element;
  Py_hash_t hash;
  for (Py_ssize_t at = 0; _PySet_NextEntry(set, &at, &element, &hash);) now.push_back(element);
  std::sort(now.begin(), now.end());
  return std::all_of(elements.begin(), elements.end(), [&](const Expected& expected) {
    if (std::binary_search(now.begin(), now.end(), expected.object()))
      return expected.matches(expected.object());
    PyObject* kept = expected.kept();
    return kept && is_constant(kept) && PySet_Contains(set, kept) == 1;
  });
}

bool elements_match(const Fact& fact, PyObject* now) {
  if (PyAnySet_Check(now)) return set_matches(fact.elements, now);
  auto size = static_cast<Py_ssize_t>(fact.elements.size());
  if (!PyTuple_Check(now) || PyTuple_GET_SIZE(now) != size) return false;
  for (Py_ssize_t i = 0; i < size; i++)
    if (!fact.elements[static_cast<size_t>(i)].matches(PyTuple_GET_ITEM(now, i))) return false;
  return true;
}

bool has_elements(Kind kind, PyObject* entry) {
  const bool many = kind == Kind::Contents || kind == Kind::Function || kind == Kind::Specials ||
                    kind == Kind::Bases;
  return many && entry && !PyBytes_Check(entry);
}

// The gradient of a tensor is replaced all the time; whoever uses it fetches it by itself. That
// there is one, and of which class, is what counts: the class stands for it in the fact.
bool is_gradient(Kind kind, PyObject* container, PyObject* key) {
  static PyObject* const grad = interned("grad");
  return kind == Kind::Slot && key == grad && is_tensor(container);
}

Fact fact_of(const Location& location, const Log& log) {
  Fact fact{location.kind, location.container, location.key};
  PyObject* entry = location.entry.get();
  // A gradient that is found elsewhere, too, has to be the same object.
  if (entry && is_gradient(location.kind, location.container, location.key.get()) &&
      is_tensor(entry) && !log.is_old(entry))
    entry = reinterpret_cast<PyObject*>(Py_TYPE(entry));
  if (has_elements(location.kind, entry)) {
    fact.elements = expect_elements(entry);
    if (location.replaced) allow_any(fact.elements, entry, location.replaced.get());
  } else if (!location.read) {
    fact.fetched = true;
    fact.value = Expected(reinterpret_cast<PyObject*>(Py_TYPE(entry)));
    fact.questions = location.questions;
  } else {
    fact.value = Expected(entry);
  }
  fact.code = Ref::borrow(reinterpret_cast<PyObject*>(location.where.code));
  fact.instruction = location.where.instruction;
  fact.written = location.written;
  if (!fact.fetched)
    fact.variable = variable_at(location.kind, location.container, location.key.get());
  return fact;
}

}  // namespace

namespace {

bool is_of(PyObject* object, PyObject* type) {
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == type;
}

bool parts_are_of(PyObject* tuple, const std::vector<Expected>& types) {
  if (PyTuple_GET_SIZE(tuple) != static_cast<Py_ssize_t>(types.size())) return false;
  for (size_t i = 0; i < types.size(); i++)
    if (!is_of(PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(i)), types[i].object()))
      return false;
  return true;
}

}  // namespace

bool holds(const Fact& fact) {
  Ref now = value_at(fact.kind, fact.container, fact.key.get());
  const bool of_class = fact.fetched || is_gradient(fact.kind, fact.container, fact.key.get());
  if (PyObject* expected = fact.value.alive(); of_class && expected && PyType_Check(expected))
    return now && is_of(now.get(), expected) &&
           (!fact.fetched || fact.elements.empty() || parts_are_of(now.get(), fact.elements)) &&
           std::ranges::all_of(fact.questions, [&](const Question& question) {
             return has_same_answer(question, now.get());
           });
  if (has_elements(fact.kind, now.get())) return elements_match(fact, now.get());
  return fact.value.matches(now.get());
}

Facts::Facts(const Log& log) : identified_(log.identified) {
  for (const Root& root : log.roots()) root_names.push_back(root.name);
  std::vector<int> index(log.locations().size(), -1);  // location -> fact
  for (size_t i = 0; i < log.locations().size(); i++) {
    if (!log.locations()[i].read && !log.locations()[i].by_type) continue;
    index[i] = static_cast<int>(facts.size());
    facts.push_back(fact_of(log.locations()[i], log));
  }
  // A container was found before anything was read of it, so parents come first.
  for (const Fact& one : facts) {
    hold(log, index, one.container);
    if (one.kind == Kind::Class)
      holders.at(one.container).type = reinterpret_cast<PyTypeObject*>(one.value.object());
  }
  for (const Location& location : log.locations())
    if (location.written) hold(log, index, location.container);
}

void Facts::hold(const Log& log, const std::vector<int>& index, PyObject* object) {
  if (holders.count(object)) return;
  const Known& known = *log.known(object);
  Holder holder{object, Py_TYPE(object)};
  holder.root = known.root;
  holder.argument = known.age == Age::Argument;
  if (known.origin != kUnknown) holder.parent = index[static_cast<size_t>(known.origin)];
  if (holder.parent >= 0) {
    const Fact& parent = facts[static_cast<size_t>(holder.parent)];
    const Holder& owner = holders.at(parent.container);
    holder.level = owner.level + 1;
    holder.unknown = owner.unknown;
    if (parent.kind == Kind::InstanceDict) holder.slot = instance_dict_slot(parent.container);
    bool fixed_part = parent.kind == Kind::Part && owner.certain;
    holder.certain = fixed_part || Expected(object).alive();
  } else {
    // An argument is another object on the next call.
    if (known.age != Age::Argument) holder.anchor = Expected(object);
    if (!holder.anchor.alive() && known.age != Age::Argument) holder.strong = Ref::borrow(object);
    holder.certain = true;
    holder.unknown = holder.root < 0;
  }
  holders.emplace(object, std::move(holder));
}

// The one fact that finds the object, -1 where it is another number of them, or where the program
// depends on more of the object than comes with its class; what it asked of that goes to `about`.
int Facts::only_fact_of(PyObject* object, std::vector<Fact*>& about) {
  int found = -1;
  for (size_t i = 0; i < facts.size(); i++) {
    Fact& fact = facts[i];
    if (fact.dropped) continue;
    if (fact.container == object) {
      about.push_back(&fact);
      const bool of_class = fact.kind == (is_tensor(object) ? Kind::Class : Kind::Part);
      if (!of_class && !has_no_attributes(fact, about)) return -1;
    }
    for (const Expected& element : fact.elements)
      if (element.object() == object) return -1;
    if (fact.value.object() != object) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return identified_.count(object) ? -1 : found;
}

// Whether the fact is about the attributes of an object, and all that is known of them is which are
// not there: methods are looked up so.
bool Facts::has_no_attributes(const Fact& fact, std::vector<Fact*>& about) {
  PyObject* attributes = fact.value.object();
  if (fact.kind != Kind::InstanceDict || !attributes) return false;
  for (Fact& other : facts) {
    if (other.dropped || other.container != attributes) continue;
    if (other.kind != Kind::Key || other.value.object()) return false;
    about.push_back(&other);
  }
  return true;
}

bool Facts::is_replaced(const Fact& fact, const std::vector<Place>& replaced) const {
  const bool one_place =
      fact.kind == Kind::Key || fact.kind == Kind::Item || fact.kind == Kind::Cell;
  const Place place{fact.kind, fact.container, fact.key.get()};
  return one_place && (fact.written || std::ranges::find(replaced, place) != replaced.end());
}

std::optional<Facts::Fetched> Facts::fetch(PyObject* tensor, const Fetchable& fetchable) {
  if (const auto known = fetched_parts_.find(tensor); known != fetched_parts_.end())
    return known->second;
  std::vector<Fact*> classes;
  const int found = only_fact_of(tensor, classes);
  if (found < 0 || !fetchable.may_be_another(tensor)) return std::nullopt;
  Fact& fact = facts[static_cast<size_t>(found)];
  if (fact.kind == Kind::Part) return fetch_part(tensor, fact.container, fetchable);
  // What is known by a weak reference alone is not to be kept alive.
  if (fact.kind != Kind::Referent && !is_replaced(fact, fetchable.replaced)) return std::nullopt;
  forget(tensor, classes);
  make_fetched(fact, reinterpret_cast<PyObject*>(Py_TYPE(tensor)));
  return Fetched{found, -1};
}

// Of a tuple that the run makes anew in its place, all tensors or none.
std::optional<Facts::Fetched> Facts::fetch_part(PyObject* tensor, PyObject* tuple,
                                                const Fetchable& fetchable) {
  std::vector<Fact*> parts;
  if (!PyTuple_CheckExact(tuple) || !fetchable.may_be_another(tuple)) return std::nullopt;
  const int found = only_fact_of(tuple, parts);
  if (found < 0 || !is_replaced(facts[static_cast<size_t>(found)], fetchable.replaced))
    return std::nullopt;
  const Py_ssize_t size = PyTuple_GET_SIZE(tuple);
  std::vector<std::vector<Fact*>> classes(static_cast<size_t>(size));
  for (Py_ssize_t i = 0; i < size; i++) {
    PyObject* part = PyTuple_GET_ITEM(tuple, i);
    const bool free = is_tensor(part) && fetchable.may_be_another(part) &&
                      only_fact_of(part, classes[static_cast<size_t>(i)]) >= 0;
    if (!free) return std::nullopt;
  }
  Fact& fact = facts[static_cast<size_t>(found)];
  for (Py_ssize_t i = 0; i < size; i++) {
    PyObject* part = PyTuple_GET_ITEM(tuple, i);
    forget(part, classes[static_cast<size_t>(i)]);
    fact.elements.emplace_back(reinterpret_cast<PyObject*>(Py_TYPE(part)));
    fetched_parts_.emplace(part, Fetched{found, static_cast<int>(i)});
  }
  forget(tuple, parts);
  make_fetched(fact, reinterpret_cast<PyObject*>(&PyTuple_Type));
  return fetched_parts_.at(tensor);
}

void Facts::forget(PyObject* object, const std::vector<Fact*>& about) {
  for (Fact* one : about) {
    one->dropped = true;
    holders.erase(one->container);
  }
  holders.erase(object);
}

void Facts::make_fetched(Fact& fact, PyObject* type) {
  fact.fetched = true;
  fact.value = Expected(type);
  fact.variable = nullptr;
}

const Holder* Facts::holder_of(PyObject* object) const {
  auto found = holders.find(object);
  return found == holders.end() ? nullptr : &found->second;
}

PyObject* Facts::alive(const Holder& holder) const {
  if (holder.strong) return holder.object;
  if (holder.parent < 0) return holder.anchor.alive();
  const Fact& parent = facts[static_cast<size_t>(holder.parent)];
  if (parent.value.object() == holder.object) return parent.value.alive();
  for (const Expected& element : parent.elements)
    if (element.object() == holder.object) return element.alive();
  return nullptr;
}

bool Facts::is_anchored(PyObject* object) const {
  const Holder* holder = holder_of(object);
  return holder && !holder->unknown;
}

}  // namespace fulgurite::pystate
