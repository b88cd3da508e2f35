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
  uint64_t order;    // of an OrderedDict, else 0
  int first, count;  // in Program::grouped
};

// Facts on the objects of one level.
struct Level {
  int dicts_begin, dicts_end;
  int types_begin, types_end;
  int facts_begin, facts_end;
};

struct Alive {
  Expected anchor;
  PyTypeObject* type;
};

struct Single {
  int fact;
  PyTypeObject* type;   // to be checked first; null where it is by the holder
  PyObject** variable;  // that is to be compared, where that is all
};

bool is_grouped_by_dict(const Fact& fact) {
  if (fact.kind == Kind::Key) return true;
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

bool function_holds(const Fact& fact) {
  auto* function = reinterpret_cast<PyFunctionObject*>(fact.container);
  auto or_none = [](PyObject* value) { return value ? value : Py_None; };
  return fact.elements[0].matches(function->func_code) &&
         fact.elements[1].matches(or_none(function->func_defaults)) &&
         fact.elements[2].matches(or_none(function->func_kwdefaults));
}

// holds(), without new objects for the frequent kinds.
bool holds_fast(const Fact& fact) {
  switch (fact.kind) {
    case Kind::Item:
      return item_holds(fact);
    case Kind::Function:
      return function_holds(fact);
    case Kind::Part:
      return fact.value.matches(part_of(fact.container, PyLong_AsSsize_t(fact.key.get())));
    case Kind::Class:
      return true;  // checked with every holder
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
  std::vector<int> grouped;    // facts by group
  std::vector<Single> single;  // facts that are in no group
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
  void add_group(PyObject* object, const std::vector<int>& members);
  bool check();
  bool check_alive();
  bool check_group(Group& group);
  bool check_single(const Single& one);
  void drop(PyObject* object);
};

void Guards::Program::build() {
  alive.clear(), groups.clear(), grouped.clear(), single.clear(), levels.clear(),
      keyed_dicts.clear();
  for (auto& [object, holder] : facts->holders)
    if (holder.anchor.object() && !holder.anchor.kept() && holder.anchor.alive())
      alive.push_back({holder.anchor, holder.type});
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
  for (int index : members) {
    const Fact& one = fact(index);
    const Holder& holder = facts->holders.at(one.container);
    bool anchored = holder.anchor.alive() || holder.strong;
    if (is_grouped_by_dict(one)) {
      dicts[one.container].push_back(index);
    } else if (is_grouped_by_type(one)) {
      types[one.container].push_back(index);
    } else if ((one.kind != Kind::Class || !anchored) && !is_checked_by_slot(index)) {
      single.push_back({index, anchored ? nullptr : holder.type, one.variable});
    }
  }
  level.facts_end = static_cast<int>(single.size());
  level.dicts_begin = static_cast<int>(groups.size());
  for (auto& [object, facts_of_it] : dicts) add_group(object, facts_of_it);
  level.dicts_end = level.types_begin = static_cast<int>(groups.size());
  for (auto& [object, facts_of_it] : types) add_group(object, facts_of_it);
  level.types_end = static_cast<int>(groups.size());
  levels.push_back(level);
}

// The dict that an object has is compared with the facts about the dict, if there are any.
bool Guards::Program::is_checked_by_slot(int index) {
  const Fact& one = fact(index);
  return one.kind == Kind::InstanceDict && keyed_dicts.count(one.value.object()) &&
         facts->holders.at(one.value.object()).parent == index;
}

void Guards::Program::add_group(PyObject* object, const std::vector<int>& members) {
  // Version 0 is that of no dict: the facts are compared at the first check.
  groups.push_back({object, facts->holders.at(object).slot, 0, 0, static_cast<int>(grouped.size()),
                    static_cast<int>(members.size())});
  grouped.insert(grouped.end(), members.begin(), members.end());
}

bool Guards::Program::check_alive() {
  for (size_t i = 0; i < alive.size(); i++) {
    PyObject* object = alive[i].anchor.object();
    bool same = alive[i].anchor.matches(object);
    if (same && Py_TYPE(object) == alive[i].type) [[likely]]
      continue;
    failed_object = object;
    if (same) return false;
    // The program cannot come to an object that is gone. If nobody knows how it came to it, it
    // came to another one of its kind each time, as with an object that it makes by itself.
    if (!facts->holders.at(object).unknown) return expired = true, false;
    drop(object);
    build();
    return check_alive();
  }
  return true;
}

bool Guards::Program::check_group(Group& group) {
  for (int i = group.first; i < group.first + group.count; i++) {
    int index = grouped[static_cast<size_t>(i)];
    if (holds(fact(index))) continue;
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
  bool same = same_type && (one.variable ? known.value.matches(*one.variable) : holds_fast(known));
  if (same) [[likely]]
    return true;
  failed_fact = one.fact;
  return false;
}

bool Guards::Program::check() {
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
        if (!PyDict_Check(group.object)) return failed_object = group.object, false;
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
      int parent = facts->holders.at(one.container).parent;
      if (one.dropped || parent < 0 || !fact(parent).dropped) continue;
      one.dropped = again = true;
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
