// What an entry checks of the state of Python and what it changes, in a form that can be printed.
//
// An object is named by its address, which is a key and never followed. A value is one of
//   ("absent",)           nothing is there
//   ("constant", value)   an equal value
//   ("object", address)   that very object
//   ("class", address)    an object of that class
#include <nanobind/stl/string.h>

#include "base/error.h"
#include "bindings/areas.h"
#include "bindings/state_record.h"
#include "pystate/facts.h"
#include "pystate/recording.h"
#include "pystate/values.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

using pystate::Expected;
using pystate::Fact;
using pystate::Facts;
using pystate::Holder;
using pystate::Kind;
using pystate::Recipe;

nb::object address(const PyObject* object) { return nb::int_(reinterpret_cast<uintptr_t>(object)); }

nb::object key_of(const pystate::Ref& key) {
  return key ? nb::object(nb::borrow(key.get())) : nb::none();
}

nb::tuple value_of(const Expected& expected) {
  if (!expected.object()) return nb::make_tuple("absent");
  PyObject* kept = expected.kept();
  if (kept && pystate::is_constant(kept)) return nb::make_tuple("constant", nb::borrow(kept));
  return nb::make_tuple("object", address(expected.object()));
}

nb::list values_of(const std::vector<Expected>& elements) {
  nb::list list;
  for (const Expected& element : elements) list.append(value_of(element));
  return list;
}

const Facts* facts_of(const StateRecord& record) {
  return record.guards.count() ? &record.guards.facts() : nullptr;
}

nb::tuple value_of(const Fact& fact) {
  if (fact.fetched) return nb::make_tuple("class", address(fact.value.object()));
  return value_of(fact.value);
}

// (text, answer) of what is asked of a number: a Python expression with {} for the number.
nb::list questions_of(const Fact& fact) {
  nb::list list;
  for (const pystate::Question& question : fact.questions)
    list.append(nb::make_tuple(pystate::text_of(question, "{}"), question.answer));
  return list;
}

// Of a container: (address of the class, parts) of tensors and containers, (None, value) of
// constants; a dict's keys and values by turns.
nb::list parts_of(const std::vector<pystate::Part>& parts) {
  nb::list list;
  for (const pystate::Part& part : parts) {
    if (part.type.object())
      list.append(nb::make_tuple(address(part.type.object()), parts_of(part.parts)));
    else
      list.append(nb::make_tuple(nb::none(), nb::borrow(part.constant.kept())));
  }
  return list;
}

// (number, kind, address of the container, key, value, elements, place, file, line, questions,
// parts) of each guard.
nb::list describe_facts(const StateRecord& record) {
  nb::list list;
  const Facts* facts = facts_of(record);
  if (!facts) return list;
  for (size_t i = 0; i < facts->facts.size(); ++i) {
    const Fact& fact = facts->facts[i];
    if (fact.dropped) continue;
    const auto described = facts->describe(fact);
    list.append(nb::make_tuple(i, described.kind, address(fact.container), key_of(fact.key),
                               value_of(fact), values_of(fact.elements), described.place,
                               described.file, described.line, questions_of(fact),
                               parts_of(fact.parts)));
  }
  return list;
}

// {address: (path, whether its class is checked)} of the objects that guards are about.
nb::dict describe_holders(const StateRecord& record) {
  nb::dict dict;
  const Facts* facts = facts_of(record);
  if (!facts) return dict;
  for (const auto& [object, holder] : facts->holders) {
    const bool class_checked = holder.anchor.weak() || !holder.certain;
    dict[address(object)] = nb::make_tuple(facts->path_of(object), class_checked);
  }
  return dict;
}

// Finds the objects behind addresses, from those that are held on along the guards that hold.
class Finder {
 public:
  explicit Finder(const Facts& facts) : facts_(facts) {}

  nb::dict find() {
    for (const auto& [object, holder] : facts_.holders) {
      if (holder.strong)
        put(object);
      else if (holder.parent < 0)
        put(holder.anchor.alive());
    }
    for (const Fact& fact : facts_.facts) follow(fact);
    return std::move(found_);
  }

 private:
  void put(PyObject* object) {
    if (object) found_[address(object)] = nb::borrow(object);
  }

  void follow(const Fact& fact) {
    const Holder* holder = facts_.holder_of(fact.container);
    if (fact.dropped || !holder || !found_.contains(address(fact.container))) return;
    if (!holder->certain && Py_TYPE(fact.container) != holder->type) return;
    if (const PyWeakReference* weak = fact.value.weak(); weak || fact.value.kept())
      put(fact.value.alive());
    follow_parts(fact.parts);
    const pystate::Ref now = pystate::value_at(fact.kind, fact.container, fact.key.get());
    if (now && fact.elements.empty() && fact.value.matches(now.get())) put(now.get());
    for (size_t i = 0; i < fact.elements.size(); ++i) follow_element(fact.elements[i], now, i);
  }

  void follow_parts(const std::vector<pystate::Part>& parts) {
    for (const pystate::Part& part : parts) {
      put(part.type.alive());
      follow_parts(part.parts);
    }
  }

  void follow_element(const Expected& element, const pystate::Ref& now, size_t i) {
    put(element.alive());
    if (!now || !PyTuple_Check(now.get()) || PyTuple_GET_SIZE(now.get()) <= Py_ssize_t(i)) return;
    PyObject* item = PyTuple_GET_ITEM(now.get(), Py_ssize_t(i));
    if (element.matches(item)) put(item);
  }

  const Facts& facts_;
  nb::dict found_;
};

nb::dict find_objects(const StateRecord& record) {
  const Facts* facts = facts_of(record);
  return facts ? Finder(*facts).find() : nb::dict();
}

nb::tuple describe_recipe(const Recipe& recipe, int first_argument) {
  constexpr const char* kSteps[] = {"constant", "object", "tensor", "number", "argument", "result",
                                    "tuple",    "list",   "dict",   "set",    "instance"};
  nb::object what = nb::none();
  if (recipe.constant) what = key_of(recipe.constant);
  if (recipe.step == Recipe::Step::Object) what = address(recipe.object.object());
  if (recipe.tensor >= 0) what = nb::int_(recipe.tensor);
  if (recipe.step == Recipe::Step::Result) what = nb::int_(recipe.result);
  if (recipe.step == Recipe::Step::Argument) what = nb::int_(recipe.argument - first_argument);
  nb::list parts;
  for (int part : recipe.parts) parts.append(part);
  return nb::make_tuple(kSteps[static_cast<size_t>(recipe.step)], what, parts);
}

nb::list describe_recipes(const StateRecord& record) {
  nb::list list;
  for (const Recipe& recipe : record.effects.recipes())
    list.append(describe_recipe(recipe, record.first_argument));
  return list;
}

// ("argument", number) of a container among the arguments, or the address of another one.
nb::object container_of(const pystate::Effect& effect, int first_argument) {
  if (effect.argument < 0) return address(effect.container);
  return nb::make_tuple("argument", effect.argument - first_argument);
}

// Operations on the number that is there: (symbol, whether it is the second operand, number of a
// recipe) of each.
nb::list describe_updates(const pystate::Effect& effect) {
  nb::list list;
  for (const auto& [kind, swapped, operand] : effect.updates)
    list.append(nb::make_tuple(std::string(pystate::text_of(kind)), swapped, operand));
  return list;
}

// (kind, container, key, number of a recipe or None, whether the key is removed first, updates,
// what, file, line)
nb::list describe_stores(const StateRecord& record) {
  nb::list list;
  for (const pystate::Effect& effect : record.effects.list()) {
    const auto line = pystate::Recording::line_of(effect.where);
    list.append(nb::make_tuple(
        pystate::name_of(effect.kind), container_of(effect, record.first_argument),
        key_of(effect.key), effect.value < 0 ? nb::object(nb::none()) : nb::int_(effect.value),
        effect.moved, describe_updates(effect), effect.what, line.file, line.line));
  }
  return list;
}

// What a place holds now, or `absent`.
nb::object value_at(const std::string& kind, nb::handle container, nb::object key,
                    nb::object absent) {
  for (int i = 0; i <= static_cast<int>(Kind::Appended); ++i) {
    if (kind != pystate::name_of(static_cast<Kind>(i))) continue;
    pystate::Ref now = pystate::value_at(static_cast<Kind>(i), container.ptr(), key.ptr());
    return now ? nb::steal(now.release()) : absent;
  }
  internal_error("no place of kind {}", kind);
}

void store(const std::string& kind, nb::handle container, nb::object key, nb::object value) {
  for (int i = 0; i <= static_cast<int>(Kind::Appended); ++i)
    if (kind == pystate::name_of(static_cast<Kind>(i)))
      if (!pystate::store(static_cast<Kind>(i), container.ptr(), key.ptr(),
                          value.is_valid() ? value.ptr() : nullptr))
        throw nb::python_error();
}

}  // namespace

void bind_state_description(nb::module_& m) {
  m.def("state_facts", &describe_facts, "The guards on the state of Python.");
  m.def("state_holders", &describe_holders, "The objects that they are about.");
  m.def("state_objects", &find_objects, "{address: object} of those that can be found.");
  m.def("state_recipes", &describe_recipes, "How the values that effects store are made.");
  m.def("state_stores", &describe_stores, "The effects on the state of Python.");
  m.def("state_value", &value_at, nb::arg("kind"), nb::arg("container"), nb::arg("key").none(),
        nb::arg("absent").none(), "What a place holds now.");
  m.def(
      "state_store",
      [](const std::string& kind, nb::handle container, nb::object key, nb::object value) {
        store(kind, container, key, value);
      },
      nb::arg("kind"), nb::arg("container"), nb::arg("key").none(), nb::arg("value").none());
  m.def(
      "state_remove",
      [](const std::string& kind, nb::handle container, nb::object key) {
        store(kind, container, key, nb::object());
      },
      nb::arg("kind"), nb::arg("container"), nb::arg("key").none());
  m.def(
      "same_constant",
      [](nb::handle a, nb::handle b) { return pystate::same_constant(a.ptr(), b.ptr()); },
      nb::arg("a").none(), nb::arg("b").none());
}

}  // namespace fulgurite
