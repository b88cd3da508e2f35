#include "pystate/guards.h"

#include <algorithm>
#include <map>

#include "pystate/facts.h"
#include "pystate/interpreter.h"

namespace fulgurite::pystate {
namespace {

// Facts about one dict or type, which all hold while its version is the same.
struct Group {
  PyObject* object;
  PyObject** slot;  // of an instance dict: where its owner keeps it
  uint64_t version;
  uint64_t order;  // of an OrderedDict, else 0
};

// An object that is held weakly.
struct Alive {
  PyWeakReference* reference;
  PyObject* object;
  PyTypeObject* type;
};

// A place that is one variable in memory.
struct Variable {
  PyObject* container;
  PyTypeObject* type;  // of the container, to be checked first; null where it is known
  PyObject** where;
  PyObject* expected;
  PyWeakReference* reference;  // to what is expected, or null
  int fact;

  bool is_same() const {
    if (type && Py_TYPE(container) != type) return false;
    return *where == expected && (!reference || reference->wr_object == expected);
  }
};

struct Single {
  int fact;
  PyTypeObject* type;  // to be checked first; null where it is known
};

// Facts on the objects of one level.
struct Level {
  int dicts_begin, dicts_end;
  int types_begin, types_end;
  int variables_begin, variables_end;
  int facts_begin, facts_end;
};

bool is_grouped_by_dict(const Fact& fact) {
  if (fact.kind == Kind::Key || fact.kind == Kind::Present) return true;
  return (fact.kind == Kind::Contents || fact.kind == Kind::Length) && PyDict_Check(fact.container);
}

bool is_grouped_by_type(const Fact& fact) {
  return fact.kind == Kind::TypeAttribute || fact.kind == Kind::TypeEntry ||
         fact.kind == Kind::Specials || fact.kind == Kind::Bases;
}

bool item_holds(const Fact& fact) {
  Py_ssize_t index = PyLong_AsSsize_t(fact.key.get()), size = PyList_GET_SIZE(fact.container);
  if (index < 0) index += size;
  bool exists = index >= 0 && index < size;
  return fact.value.matches(exists ? PyList_GET_ITEM(fact.container, index) : nullptr);
}

bool list_holds(const Fact& fact) {
  auto size = static_cast<Py_ssize_t>(fact.elements.size());
  if (PyList_GET_SIZE(fact.container) != size) return false;
  for (Py_ssize_t i = 0; i < size; i++)
    if (!fact.elements[static_cast<size_t>(i)].matches(PyList_GET_ITEM(fact.container, i)))
      return false;
  return true;
}

// holds(), without new objects for the frequent kinds.
bool holds_fast(const Fact& fact) {
  if (fact.fetched) return holds(fact);
  switch (fact.kind) {
    case Kind::Item:
      return item_holds(fact);
    case Kind::Part:
      return fact.value.matches(part_of(fact.container, PyLong_AsSsize_t(fact.key.get())));
    case Kind::Contents:
      if (PyList_Check(fact.container)) return list_holds(fact);
      break;
    default:
      break;
  }
  return holds(fact);
}

uint64_t order_of(PyObject* dict) {
  static uint64_t unknown = uint64_t{1} << 63;  // is never the same again
  uint64_t state = 0;
  if (!PyODict_Check(dict)) return 0;
  return ordered_dict_state(dict, state) ? state : ++unknown;
}

uint64_t version_of(PyObject* object) {
  return PyDict_Check(object) ? dict_version(object)
                              : type_version(reinterpret_cast<PyTypeObject*>(object));
}

}  // namespace

struct Guards::Program {
  std::unique_ptr<Facts> facts;
  std::vector<Alive> alive;
  std::vector<Group> groups;
  std::vector<std::vector<int>> group_facts;
  std::vector<int> group_of;  // by fact; -1 where it is in none
  std::vector<Variable> variables;
  std::vector<Single> single;  // the other facts
  std::vector<Level> levels;
  ska::flat_hash_set<PyObject*> keyed_dicts;
  int failed_fact = -1;
  PyObject* failed_object = nullptr;  // an address
  bool expired = false;

  explicit Program(std::unique_ptr<Facts> from) : facts(std::move(from)) { build(); }

  Fact& fact(int index) { return facts->facts[static_cast<size_t>(index)]; }

  void build();
  void build_level(const std::vector<int>& members);
  bool is_checked_by_slot(int index);
  int group_of_owner(int index);
  void add_variables(int index, PyTypeObject* type);
  void add_group(PyObject* object, std::vector<int> about_it);
  bool check();
  bool check_all();
  bool check_alive();
  bool check_group(Group& group);
  bool check_single(const Single& one);
  void drop(PyObject* object);
};

void Guards::Program::build() {
  alive.clear(), groups.clear(), group_facts.clear(), variables.clear(), single.clear();
  levels.clear(), keyed_dicts.clear();
  group_of.assign(facts->facts.size(), -1);
  for (auto& [object, holder] : facts->holders)
    if (PyWeakReference* reference = holder.anchor.weak())
      alive.push_back({reference, object, holder.type});
  for (const Fact& one : facts->facts)
    if (!one.dropped && is_grouped_by_dict(one)) keyed_dicts.insert(one.container);
  std::map<int, std::vector<int>> by_level;
  for (int i = 0; i < static_cast<int>(facts->facts.size()); i++)
    if (!fact(i).dropped) by_level[facts->holders.at(fact(i).container).level].push_back(i);
  for (auto& [level, members] : by_level) build_level(members);
}

void Guards::Program::build_level(const std::vector<int>& members) {
  std::map<PyObject*, std::vector<int>> dicts, types;
  Level level{};
  level.facts_begin = static_cast<int>(single.size());
  level.variables_begin = static_cast<int>(variables.size());
  for (int index : members) {
    const Fact& one = fact(index);
    const Holder& holder = facts->holders.at(one.container);
    if (is_grouped_by_dict(one)) {
      dicts[one.container].push_back(index);
    } else if (is_grouped_by_type(one)) {
      types[one.container].push_back(index);
    } else if (is_checked_by_slot(index) || (one.kind == Kind::Part && holder.certain)) {
      continue;
    } else if (int group = group_of_owner(index); group >= 0) {
      group_facts[static_cast<size_t>(group)].push_back(index);
      group_of[static_cast<size_t>(index)] = group;
    } else if (one.variable || one.kind == Kind::Function) {
      add_variables(index, holder.certain ? nullptr : holder.type);
    } else {
      single.push_back({index, holder.certain ? nullptr : holder.type});
    }
  }
  level.facts_end = static_cast<int>(single.size());
  level.variables_end = static_cast<int>(variables.size());
  level.dicts_begin = static_cast<int>(groups.size());
  for (auto& [object, about_it] : dicts) add_group(object, std::move(about_it));
  level.dicts_end = level.types_begin = static_cast<int>(groups.size());
  for (auto& [object, about_it] : types) add_group(object, std::move(about_it));
  level.types_end = static_cast<int>(groups.size());
  levels.push_back(level);
}

// The dict that an object has is compared with the facts about the dict, if there are any.
bool Guards::Program::is_checked_by_slot(int index) {
  const Fact& one = fact(index);
  return one.kind == Kind::InstanceDict && keyed_dicts.count(one.value.object()) &&
         facts->holders.at(one.value.object()).parent == index;
}

void Guards::Program::add_variables(int index, PyTypeObject* type) {
  const Fact& one = fact(index);
  auto add = [&](PyObject*& where, const Expected& expected) {
    bool absent = expected.object() == Py_None && one.kind == Kind::Function;
    variables.push_back({one.container, type, &where, absent ? nullptr : expected.object(),
                         expected.weak(), index});
  };
  if (one.variable) return add(*one.variable, one.value);
  auto* function = reinterpret_cast<PyFunctionObject*>(one.container);
  add(function->func_code, one.elements[0]);
  add(function->func_defaults, one.elements[1]);
  add(function->func_kwdefaults, one.elements[2]);
}

// What an object consists of that cannot change is the same while its owner has that very object.
int Guards::Program::group_of_owner(int index) {
  int parent = facts->holders.at(fact(index).container).parent;
  bool fixed = fact(index).kind == Kind::Part && parent >= 0;
  return fixed ? group_of[static_cast<size_t>(parent)] : -1;
}

void Guards::Program::add_group(PyObject* object, std::vector<int> about_it) {
  auto group = static_cast<int>(groups.size());
  for (int index : about_it) group_of[static_cast<size_t>(index)] = group;
  // Version 0 is that of no dict: the facts are compared at the first check.
  groups.push_back({object, facts->holders.at(object).slot, 0, 0});
  group_facts.push_back(std::move(about_it));
}

bool Guards::Program::check_alive() {
  for (const Alive& one : alive) {
    bool same = one.reference->wr_object == one.object;
    if (same && Py_TYPE(one.object) == one.type) [[likely]]
      continue;
    failed_object = one.object;
    if (same) return false;
    // The program cannot come to an object that is gone. If nobody knows how it came to it, it
    // came to another one of its kind each time, as with an object that it makes by itself.
    if (!facts->holders.at(one.object).unknown) return expired = true, false;
    drop(one.object);
    build();
    return check_alive();
  }
  return true;
}

bool Guards::Program::check_group(Group& group) {
  for (int index : group_facts[static_cast<size_t>(&group - groups.data())]) {
    Holder& holder = facts->holders.at(fact(index).container);
    bool same_type = holder.certain || Py_TYPE(holder.object) == holder.type;
    if (same_type && holds(fact(index))) continue;
    failed_fact = index;
    return false;
  }
  group.version = version_of(group.object);
  group.order = PyDict_Check(group.object) ? order_of(group.object) : 0;
  return true;
}

bool Guards::Program::check_single(const Single& one) {
  const Fact& known = fact(one.fact);
  bool same_type = !one.type || Py_TYPE(known.container) == one.type;
  if (same_type && holds_fast(known)) [[likely]]
    return true;
  failed_fact = one.fact;
  return false;
}

bool Guards::Program::check() {
  if (check_all()) return true;
  // What is expected and gone will never be found again.
  const auto is_gone = [](const Expected& one) { return one.weak() && !one.alive(); };
  if (failed_fact < 0) return false;
  const Fact& failed = fact(failed_fact);
  expired |= is_gone(failed.value) || std::ranges::any_of(failed.elements, is_gone);
  return false;
}

bool Guards::Program::check_all() {
  failed_fact = -1;
  failed_object = nullptr;
  if (expired || !check_alive()) return false;
  for (const Level& level : levels) {
    for (int i = level.dicts_begin; i < level.dicts_end; i++) {
      Group& group = groups[static_cast<size_t>(i)];
      if (group.slot && *group.slot != group.object) [[unlikely]]
        return failed_object = group.object, false;
      bool reordered = group.order && order_of(group.object) != group.order;
      if (dict_version(group.object) != group.version || reordered) [[unlikely]] {
        if (!check_group(group)) return false;
      }
    }
    for (int i = level.types_begin; i < level.types_end; i++) {
      Group& group = groups[static_cast<size_t>(i)];
      unsigned version = type_version(reinterpret_cast<PyTypeObject*>(group.object));
      if (version == group.version && version) [[likely]]
        continue;
      if (!check_group(group)) return false;
    }
    for (int i = level.variables_begin; i < level.variables_end; i++) {
      const Variable& variable = variables[static_cast<size_t>(i)];
      if (variable.is_same()) [[likely]]
        continue;
      bool same_type = !variable.type || Py_TYPE(variable.container) == variable.type;
      if (!same_type || !holds(fact(variable.fact))) return failed_fact = variable.fact, false;
    }
    for (int i = level.facts_begin; i < level.facts_end; i++)
      if (!check_single(single[static_cast<size_t>(i)])) [[unlikely]]
        return false;
  }
  return true;
}

// Drops the facts on the object, and on all that was found through them.
void Guards::Program::drop(PyObject* object) {
  for (Fact& one : facts->facts) one.dropped |= one.container == object;
  for (bool again = true; again;) {
    again = false;
    for (Fact& one : facts->facts) {
      if (one.dropped) continue;
      Holder& holder = facts->holders.at(one.container);
      if (holder.parent < 0 || !fact(holder.parent).dropped) continue;
      one.dropped = again = holder.unknown = true;
    }
  }
  facts->holders.at(object).anchor = Expected();
}

Guards::Guards() : Guards(nullptr) {}
Guards::Guards(std::unique_ptr<Facts> facts)
    : program_(facts ? std::make_unique<Program>(std::move(facts)) : nullptr) {}
Guards::~Guards() = default;
Guards::Guards(Guards&&) noexcept = default;
Guards& Guards::operator=(Guards&&) noexcept = default;

bool Guards::check() { return !program_ || program_->check(); }
std::optional<Place> Guards::replaced_tensor() const {
  if (!program_ || program_->failed_fact < 0) return std::nullopt;
  const Fact& fact = program_->fact(program_->failed_fact);
  const Ref now = value_at(fact.kind, fact.container, fact.key.get());
  PyObject* before = fact.value.alive();
  if (!before || !is_tensor(before) || !now || !is_tensor(now.get())) return std::nullopt;
  return Place{fact.kind, fact.container, fact.key.get()};
}

Facts* Guards::changeable_facts() { return program_ ? program_->facts.get() : nullptr; }
void Guards::rebuild() {
  if (program_) program_->build();
}

bool Guards::expired() const { return program_ && program_->expired; }
size_t Guards::count() const { return program_ ? program_->facts->facts.size() : 0; }
const Facts& Guards::facts() const { return *program_->facts; }

std::string Guards::explain() const {
  if (!program_) return "";
  const Facts& facts = *program_->facts;
  if (program_->failed_fact >= 0) return facts.explain(program_->fact(program_->failed_fact));
  if (!program_->failed_object) return "";
  std::string place = facts.path_of(program_->failed_object);
  return place + (program_->expired ? " is gone" : " was replaced or changed its class");
}

std::vector<GuardDescription> Guards::describe() const {
  std::vector<GuardDescription> result;
  if (!program_) return result;
  for (const Fact& fact : program_->facts->facts)
    if (!fact.dropped) result.push_back(program_->facts->describe(fact));
  return result;
}

int Guards::visit(visitproc visit, void* argument) const {
  if (!program_) return 0;
  for (auto& [object, holder] : program_->facts->holders) {
    for (PyObject* kept : {holder.strong.get(), holder.anchor.kept()})
      if (kept)
        if (int stop = visit(kept, argument)) return stop;
  }
  return 0;
}

void Guards::clear() { program_.reset(); }

}  // namespace fulgurite::pystate
