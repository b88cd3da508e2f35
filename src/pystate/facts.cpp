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

bool parts_match(PyObject* container, const std::vector<Part>& parts) {
  if (parts_in(container) != static_cast<Py_ssize_t>(parts.size())) return false;
  for (size_t i = 0; i < parts.size(); i++)
    if (!parts[i].matches(part_in(container, static_cast<Py_ssize_t>(i)))) return false;
  return true;
}

}  // namespace

Py_ssize_t parts_in(PyObject* container) {
  if (PyDict_Check(container)) return 2 * PyDict_GET_SIZE(container);
  return PySequence_Fast_GET_SIZE(container);
}

PyObject* part_in(PyObject* container, Py_ssize_t index) {
  if (!PyDict_Check(container)) return PySequence_Fast_GET_ITEM(container, index);
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  for (Py_ssize_t i = 0; i <= index / 2; i++) PyDict_Next(container, &at, &key, &value);
  return index % 2 ? value : key;
}

bool Part::matches(PyObject* now) const {
  if (!type.object()) return constant.matches(now);
  return is_of(now, type.object()) && (is_tensor(now) || parts_match(now, parts));
}

bool holds(const Fact& fact) {
  Ref now = value_at(fact.kind, fact.container, fact.key.get());
  const bool of_class = fact.fetched || is_gradient(fact.kind, fact.container, fact.key.get());
  if (PyObject* expected = fact.value.alive(); of_class && expected && PyType_Check(expected))
    return now && is_of(now.get(), expected) &&
           (fact.parts.empty() || parts_match(now.get(), fact.parts)) &&
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
