#include "pystate/log.h"

#include <algorithm>

namespace fulgurite::pystate {
namespace {

// Places that the contents of a container include.
bool within_contents(Kind kind) {
  return kind == Kind::Key || kind == Kind::Item || kind == Kind::Member || kind == Kind::Length ||
         kind == Kind::Present || kind == Kind::Contents;
}

// Hashing and comparing such an object runs no Python code.
bool has_plain_hash(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return (type->tp_hash == PyBaseObject_Type.tp_hash &&
          type->tp_richcompare == PyBaseObject_Type.tp_richcompare) ||
         (PyType_Check(object) && type->tp_hash == PyType_Type.tp_hash &&
          type->tp_richcompare == PyType_Type.tp_richcompare) ||
         type == &PyCFunction_Type || type == &PyFunction_Type;
}

bool is_plain_key(PyObject* key) {
  if (is_constant(key)) return true;
  if (!PyTuple_CheckExact(key)) return has_plain_hash(key);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++)
    if (!is_plain_key(PyTuple_GET_ITEM(key, i))) return false;
  return true;
}

}  // namespace

size_t Log::IndexHash::operator()(const Index& index) const {
  size_t hash = reinterpret_cast<size_t>(index.container) * 0x9E3779B97F4A7C15ull;
  hash ^= (reinterpret_cast<size_t>(index.key) >> 4) * 0xC2B2AE3D27D4EB4Full;
  hash ^= static_cast<size_t>(index.kind);
  return hash ^ (hash >> 29);
}

Log::Log(std::vector<Root> roots) : roots_(std::move(roots)) {
  canonical_ = Ref::steal(PyDict_New());
  locations_.reserve(2048);
  index_.reserve(4096);
  known_.reserve(4096);
  roots_.push_back({"sys.modules", PySys_GetObject("modules")});
  for (size_t i = 0; i < roots_.size(); i++) {
    const auto root = static_cast<int32_t>(i);
    if (!roots_[i].argument)
      add_old(roots_[i].object, kUnknown, root);
    else if (known_.emplace(roots_[i].object, Known{Age::Argument, kUnknown, root}).second)
      read_parts(Py_NewRef(roots_[i].object));
  }
}

Log::~Log() {
  for (auto& [object, known] : known_) Py_DECREF(object);
}

const Known* Log::known(PyObject* object) const {
  auto found = known_.find(object);
  return found == known_.end() ? nullptr : &found->second;
}

bool Log::is_old(PyObject* object) const {
  const Known* about = known(object);
  return about && about->age != Age::Fresh;
}

bool Log::is_fresh(PyObject* object) const {
  const Known* about = known(object);
  return about ? about->age == Age::Fresh : is_tensor(object) || is_autograd_context(object);
}

void Log::add_old(PyObject* object, LocationId origin, int32_t root) {
  if (!object || is_atomic(object)) return;
  if (!known_.emplace(object, Known{Age::Old, origin, root}).second) return;
  Py_INCREF(object);
  adopt_parts(object);
}

void Log::add_fresh(PyObject* object) {
  if (!object || is_atomic(object)) return;
  auto [found, added] = known_.emplace(object, Known{Age::Fresh});
  if (added) {
    Py_INCREF(object);
  } else if (found->second.origin == kUnknown && found->second.root < 0) {
    found->second.age = Age::Fresh;
  }
}

LocationId Log::read(Kind kind, PyObject* container, PyObject* key) {
  auto found = known_.find(container);
  if (found == known_.end()) {
    if (is_tensor(container) || is_autograd_context(container)) return kUnknown;
    add_old(container, kUnknown);
  } else {
    Known& about = found->second;
    if (about.age == Age::Fresh) return kUnknown;
    if (about.age == Age::Argument) {
      pass_on(Known(about), kind, container, key);
      return kUnknown;
    }
    if (within_contents(kind)) {
      if (about.appended != kUnknown) return read_appended(container);
      if (about.contents != kUnknown) return about.contents;
    }
  }
  if (kind == Kind::Present)
    if (LocationId of_key = find(Kind::Key, container, key); of_key != kUnknown) {
      const Location& known = locations_[of_key];
      if (known.read || known.written) return of_key;
    }
  LocationId id = locate(kind, container, key);
  if (kind == Kind::Length && first_contents(container)) read_presence(container);
  if (number_only && note_number(id)) return id;
  Location& location = locations_[id];
  if (!location.written || location.only_updates) location.read = true;
  return id;
}

void Log::write(Kind kind, PyObject* container, PyObject* key) {
  rewrite(kind, container, key, true);
}

void Log::clear(PyObject* container) { rewrite(Kind::Contents, container, nullptr, false); }

void Log::rewrite(Kind kind, PyObject* container, PyObject* key, bool from_the_old) {
  if (is_atomic(container) || is_fresh(container)) return;
  // A method of a builtin type, called with an object of another: an error is about to be raised.
  if (within_contents(kind) && !is_mutable_container(container)) return;
  add_old(container, kUnknown);
  Known about = known_.find(container)->second;
  if (within_contents(kind)) {
    if (about.appended != kUnknown) about.contents = read_appended(container);
    keep_contents(container);
    if (about.contents != kUnknown && locations_[about.contents].written) return;
  }
  LocationId id = locate(kind, container, key);
  Location& location = locations_[id];
  // New contents are made from the old ones.
  if (kind == Kind::Contents && from_the_old && about.age != Age::Argument) location.read = true;
  bool inserts = kind == Kind::Key && !value_at(kind, container, key);
  if (!location.written || inserts) location.order = ++order_;
  if (inserts && location.entry) location.moved = true;
  if (!location.written) location.where = here;
  location.written = true;
  location.only_updates = location.only_updates && id == storing_number;
  has_stored_number |= id == storing_number;
  if (kind == Kind::Key && find(Kind::Length, container, nullptr) != kUnknown)
    read_presence(container);
}

void Log::append(PyObject* list) {
  if (is_fresh(list)) return;
  add_old(list, kUnknown);
  const Known about = known_.find(list)->second;
  if (about.contents != kUnknown) return write(Kind::Contents, list);
  if (about.appended != kUnknown) return;
  LocationId id = locate(Kind::Appended, list, nullptr);
  locations_[id].written = true;
  locations_[id].order = ++order_;
  known_.find(list)->second.appended = id;
}

// A list to which items were put is now looked at: the first items are what it held at first.
LocationId Log::read_appended(PyObject* list) {
  Known& about = known_.find(list)->second;
  Location& appended = locations_[about.appended];
  Py_ssize_t size = std::min(PyLong_AsSsize_t(appended.entry.get()), PyList_GET_SIZE(list));
  Ref first = Ref::steal(PyTuple_New(size));
  for (Py_ssize_t i = 0; i < size; i++)
    PyTuple_SET_ITEM(first.get(), i, Py_NewRef(PyList_GET_ITEM(list, i)));
  Where where = appended.where;
  uint32_t order = appended.order;
  appended.written = false;
  about.appended = kUnknown;
  bool argument = about.age == Age::Argument;
  contents_.emplace(list, std::move(first));
  LocationId id = locate(Kind::Contents, list, nullptr);
  Location& contents = locations_[id];
  contents.read = !argument;
  contents.written = true;
  contents.where = where;
  contents.order = order;
  return id;
}

LocationId Log::find(Kind kind, PyObject* container, PyObject* key) const {
  auto found = index_.find(Index{kind, container, key});
  return found == index_.end() ? kUnknown : found->second;
}

// What the place held before the run, where the run has written to a part of it.
Ref Log::entry_of(Kind kind, PyObject* container, PyObject* key) const {
  if (kind == Kind::Present)
    if (LocationId of_key = find(Kind::Key, container, key); of_key != kUnknown)
      return Ref::steal(PyBool_FromLong(static_cast<bool>(locations_[of_key].entry)));
  PyObject* first = first_contents(container);
  if (first && kind == Kind::Contents) return Ref::borrow(first);
  if (first && kind == Kind::Length) {
    Py_ssize_t size = PyObject_Size(first);
    return Ref::steal(PyLong_FromSsize_t(PyDict_Check(container) ? size / 2 : size));
  }
  return value_at(kind, container, key);
}

// The keys whose first values nobody has looked at, and nobody can any more.
Ref Log::replaced_keys(PyObject* dict) const {
  if (!PyDict_Check(dict) || !first_contents(dict)) return Ref();
  Ref keys = Ref::steal(PySet_New(nullptr));
  for (const Location& one : locations_)
    if (one.container == dict && one.kind == Kind::Key && one.written && !one.read && !one.by_type)
      PySet_Add(keys.get(), one.key.get());
  return keys;
}

// How many keys a dict has after it was written to depends on which of these it had before.
void Log::read_presence(PyObject* dict) {
  for (size_t i = 0; i < locations_.size(); i++) {
    const Location& one = locations_[i];
    if (one.container != dict || one.kind != Kind::Key || !one.written || one.read) continue;
    LocationId id = locate(Kind::Present, dict, one.key.get());
    locations_[id].read = true;
  }
}

LocationId Log::locate(Kind kind, PyObject* container, PyObject* key) {
  LocationId known = find(kind, container, key);
  if (known != kUnknown) return known;
  Ref entry = entry_of(kind, container, key);
  auto id = static_cast<LocationId>(locations_.size());
  locations_.push_back({kind, false, false, false, container, Ref::borrow(key), entry, {}, here});
  if (kind == Kind::Contents) locations_.back().replaced = replaced_keys(container);
  index_.emplace(Index{kind, container, key}, id);
  if (kind == Kind::Contents) known_.find(container)->second.contents = id;
  if (!entry) return id;
  if (kind == Kind::Contents || kind == Kind::Function) {
    if (PyTuple_Check(entry.get()))
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(entry.get()); i++)
        adopt(PyTuple_GET_ITEM(entry.get(), i), id);
    PyObject* element;
    Py_hash_t hash;
    if (PyAnySet_Check(entry.get()))
      for (Py_ssize_t at = 0; _PySet_NextEntry(entry.get(), &at, &element, &hash);)
        adopt(element, id);
  } else if (kind != Kind::Buffer && kind != Kind::Specials && kind != Kind::Bases) {
    adopt(entry.get(), id);
  }
  return id;
}

// Whether the way there begins with a plain container of which nobody knows where it is from.
bool Log::is_loose(PyObject* container) const {
  const Known* at = known(container);
  while (at && at->root < 0 && at->origin != kUnknown) {
    container = locations_[at->origin].container;
    at = known(container);
  }
  bool plain =
      PyTuple_CheckExact(container) || PyList_CheckExact(container) || PyDict_CheckExact(container);
  return at && at->root < 0 && plain;
}

void Log::adopt(PyObject* value, LocationId from) {
  // A gradient is a tensor like one that the run makes: another one on each call.
  if (is_tensor(value) && is_tensor(locations_[from].container)) return;
  const Known owner = known_.find(locations_[from].container)->second;
  if (owner.age == Age::Argument) return adopt_argument(owner, value);
  // C code may have put tensors that the run made into a container of its own.
  if (is_tensor(value) && is_loose(locations_[from].container)) return;
  if (const Known* about = known(value); about && about->age == Age::Argument)
    found_argument_elsewhere |= is_mutable_container(value);
  add_old(value, from);
}

// What is in a container among the arguments is checked with it.
void Log::adopt_argument(const Known& owner, PyObject* value) {
  if (is_tensor(value)) return;
  if (!is_mutable_container(value) && !PyTuple_Check(value))
    return add_old(value, kUnknown, owner.root);
  auto [found, added] = known_.emplace(value, Known{Age::Argument, kUnknown, owner.root});
  found->second.age = Age::Argument;
  if (!added) return;
  Py_INCREF(value);
  read_parts(value);
}

void Log::adopt_parts(PyObject* object) {
  if (PyFunction_Check(object)) return;  // there are many, and few of them run
  if (PyCFunction_Check(object)) {
    PyObject* self = PyCFunction_GET_SELF(object);
    if (!self || !is_mutable_container(self)) return;
  }
  if (PyTuple_Check(object) && is_constant(object)) return;
  read_parts(object);
}

void Log::read_parts(PyObject* object) {
  for (Py_ssize_t i = 0; i < part_count(object); i++) {
    Ref key = Ref::steal(PyLong_FromSsize_t(i));
    read(Kind::Part, object, canonical_key(key.get()));
  }
}

void Log::pass_on(const Known& owner, Kind kind, PyObject* container, PyObject* key) {
  if (kind != Kind::Key && kind != Kind::Item && kind != Kind::Contents && kind != Kind::Part)
    return;
  Ref value = value_at(kind, container, key);
  if (!value) return;
  if (kind != Kind::Contents) return adopt_argument(owner, value.get());
  if (PyTuple_Check(value.get()))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value.get()); i++)
      adopt_argument(owner, PyTuple_GET_ITEM(value.get(), i));
}

std::vector<Ref> Log::written_values() const {
  std::vector<Ref> values(locations_.size());
  for (size_t i = 0; i < locations_.size(); i++) {
    const Location& location = locations_[i];
    if (location.written)
      values[i] = value_at(location.kind, location.container, location.key.get());
  }
  return values;
}

bool Log::written_since(const std::vector<Ref>& then) const {
  for (size_t i = 0; i < locations_.size(); i++) {
    const Location& location = locations_[i];
    const Known* about = known(location.container);
    if (!location.written || !about || about->age == Age::Fresh) continue;
    const Ref now = value_at(location.kind, location.container, location.key.get());
    const Ref& before = i < then.size() && then[i] ? then[i] : location.entry;
    if (!same_value(location.kind, before.get(), now.get())) return true;
  }
  return false;
}

PyObject* Log::first_contents(PyObject* container) const {
  auto found = contents_.find(container);
  return found == contents_.end() ? nullptr : found->second.get();
}

bool Log::is_rewritten(const Location& location) const {
  if (location.kind != Kind::Key && location.kind != Kind::Item && location.kind != Kind::Member)
    return false;
  const Known* about = known(location.container);
  return about && about->contents != kUnknown &&
         locations_[static_cast<size_t>(about->contents)].written;
}

void Log::keep_contents(PyObject* container) {
  if (contents_.count(container)) return;
  LocationId contents = known_.find(container)->second.contents;
  contents_.emplace(container,
                    contents != kUnknown ? locations_[contents].entry : contents_of(container));
}

PyObject* Log::canonical_key(PyObject* key) {
  if (PyUnicode_CheckExact(key)) {
    if (PyUnicode_CHECK_INTERNED(key)) return key;
    Py_INCREF(key);
    PyUnicode_InternInPlace(&key);
    PyDict_SetItem(canonical_.get(), key, key);  // keeps it alive
    Py_DECREF(key);
    return key;
  }
  if (!is_plain_key(key)) return nullptr;
  PyObject* canonical = PyDict_SetDefault(canonical_.get(), key, key);
  if (!canonical) PyErr_Clear();
  return canonical;
}

}  // namespace fulgurite::pystate
