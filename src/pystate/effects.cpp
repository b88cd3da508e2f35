#include "pystate/effects.h"

#include <fmt/format.h>

#include <algorithm>

namespace fulgurite::pystate {

// Finds out how each new value could be made again.
class EffectBuilder {
 public:
  EffectBuilder(Effects& effects, const Log& log, const Facts& facts, const Effects::Opener& open)
      : effects_(effects), log_(log), facts_(facts), open_(open) {}

  void add(const Location& location) {
    Ref now = new_value(location);
    const bool updated = location.is_updated();
    bool same = !updated && location.kind != Kind::Appended && !(location.moved && now) &&
                same_value(location.kind, location.entry.get(), now.get());
    if (same) return;
    if (now) kept_.push_back(now);
    Effect effect{EffectClass::Exact, location.kind, location.container, location.key};
    effect.order = location.order;
    effect.moved = location.moved;
    effect.where = location.where;
    effect.code = Ref::borrow(reinterpret_cast<PyObject*>(location.where.code));
    effect.place = facts_.place_of(location.kind, location.container, location.key.get());
    effect.what = updated ? fmt::format("sets {0} to {1}", effect.place,
                                        text_of(location.updates, effect.place))
                          : describe(effect, now.get());
    const Known* known = log_.known(location.container);
    // Another object on the next call, while this address may be anything by then.
    if (known && known->age == Age::Argument) effect.argument = argument_number(location.container);
    if (known && known->age == Age::Argument && effect.argument < 0) {
      effect.refusal = "it is among the arguments of the call; return the new value instead";
    } else if (!is_reachable(location.container)) {
      effect.refusal = "nobody knows how the program comes to the object that it changes";
    } else if (location.kind == Kind::Buffer) {
      effect.refusal = "writes to the memory of an array cannot be repeated";
    } else if (updated) {
      has_tensor_ = false;
      for (const Operation& update : location.updates)
        effect.updates.push_back({update.kind, update.swapped, make_operand(update.operand.get())});
      if (has_tensor_) effect.kind_of_value = EffectClass::Tensor;
    } else if (now) {
      has_tensor_ = false;
      effect.value = make(now.get());
      if (effect.value < 0) effect.refusal = refusal_;
      if (has_tensor_) effect.kind_of_value = EffectClass::Tensor;
    }
    if (!effect.refusal.empty()) effect.kind_of_value = EffectClass::Refuse;
    effects_.effects_.push_back(std::move(effect));
  }

 private:
  static Ref new_value(const Location& location) {
    if (location.last) return *location.last;
    if (location.kind != Kind::Appended)
      return value_at(location.kind, location.container, location.key.get());
    Py_ssize_t size = PyLong_AsSsize_t(location.entry.get());
    Ref added =
        Ref::steal(PyList_GetSlice(location.container, size, PyList_GET_SIZE(location.container)));
    return Ref::steal(PyList_AsTuple(added.get()));
  }

  static std::string describe(const Effect& effect, PyObject* now) {
    switch (effect.kind) {
      case Kind::Appended:
        return "appends to " + effect.place;
      case Kind::Contents:
        return "changes " + effect.place;
      case Kind::Member:
        return fmt::format("makes {} {}", effect.place, now == Py_True ? "true" : "false");
      case Kind::Buffer:
        return "writes to " + effect.place;
      default:
        break;
    }
    if (!now) return "removes " + effect.place;
    return fmt::format("sets {} to {}", effect.place, short_repr(now));
  }

  bool is_reachable(PyObject* object) const {
    const Known* known = log_.known(object);
    return known && (known->age == Age::Argument || facts_.is_anchored(object));
  }

  // Whether the guards say that the program would find the same object again. One that cannot be
  // held weakly has to be where they look.
  bool is_found_again(const Known& known, const Expected& object) const {
    if (known.origin == kUnknown) return known.root >= 0;
    const Location& from = log_.locations()[static_cast<size_t>(known.origin)];
    return from.read && (object.weak() || is_reachable(from.container));
  }

  // Which root the container is; -1 where it is a part of one that nobody has listed.
  int argument_number(PyObject* container) const {
    const Known* known = log_.known(container);
    if (!known || known->root < 0) return -1;
    bool itself = log_.roots()[static_cast<size_t>(known->root)].object == container;
    return itself ? known->root : -1;
  }

  int add_step(Recipe recipe) {
    effects_.recipes_.push_back(std::move(recipe));
    return static_cast<int>(effects_.recipes_.size()) - 1;
  }

  int refuse(PyObject* value, const char* why) {
    refusal_ = fmt::format("stores a {}, {}", Py_TYPE(value)->tp_name, why);
    return -1;
  }

  int make(PyObject* value) {
    auto made = effects_.made_.find(value);
    if (made != effects_.made_.end()) {
      has_tensor_ |= tensor_steps_.count(made->second) != 0;
      return made->second;
    }
    if (!being_made_.insert(value).second) return refuse(value, "which contains itself");
    int step = make_anew(value);
    being_made_.erase(value);
    if (step >= 0) effects_.made_.emplace(value, step);
    if (step >= 0 && has_tensor_) tensor_steps_.insert(step);
    return step;
  }

  int add_tensor(Recipe::Step step, PyObject* tensor) {
    effects_.tensors_.push_back(Ref::borrow(tensor));
    has_tensor_ = true;
    return add_step({step, {}, {}, int(effects_.tensors_.size()) - 1});
  }

  int make_operand(PyObject* operand) {
    if (is_constant(operand)) return add_step({Recipe::Step::Constant, Ref::borrow(operand)});
    return add_tensor(Recipe::Step::Number, operand);
  }

  // Whether the run put something else where it found the object, or the tuples and lists that it
  // is in: another one in each call.
  bool gives_way(const Known& known) const {
    for (const Known* at = &known; at && at->origin != kUnknown;) {
      const Location& from = log_.locations()[static_cast<size_t>(at->origin)];
      if (from.written) return true;
      const bool within = from.kind == Kind::Part || from.kind == Kind::Item ||
                          from.kind == Kind::Contents || from.kind == Kind::Key;
      at = within ? log_.known(from.container) : nullptr;
    }
    return false;
  }

  int make_anew(PyObject* value) {
    if (is_constant(value)) return add_step({Recipe::Step::Constant, Ref::borrow(value)});
    const Known* known = log_.known(value);
    if (is_tensor(value) && (!log_.is_old(value) || gives_way(*known)))
      return add_tensor(Recipe::Step::Tensor, value);
    if (is_number_of_run(value)) {
      const Ref tensor = tensor_of_number(value);
      if (tensor) return add_tensor(Recipe::Step::Number, tensor.get());
      PyErr_Clear();
    }
    if (known && known->age == Age::Argument && !PyTuple_Check(value)) {
      const int number = argument_number(value);
      if (number < 0) return refuse(value, "which is a part of an argument");
      return add_step({.step = Recipe::Step::Argument, .argument = number});
    }
    if (known && known->age == Age::Old) {
      Expected object(value);
      if (!is_found_again(*known, object))
        return refuse(value, "of which nobody knows where it is from");
      return add_step({Recipe::Step::Object, {}, std::move(object)});
    }
    if (PyTuple_CheckExact(value)) return collect(Recipe::Step::Tuple, Ref::borrow(value));
    if (PyBytes_CheckExact(value)) return add_step({Recipe::Step::Constant, Ref::borrow(value)});
    bool fresh = known && known->age == Age::Fresh;
    if (fresh && PyList_CheckExact(value)) return collect(Recipe::Step::List, contents_of(value));
    if (fresh && PyDict_CheckExact(value)) return collect(Recipe::Step::Dict, contents_of(value));
    if (fresh && PySet_CheckExact(value))
      return collect(Recipe::Step::Set, Ref::steal(PySequence_Tuple(value)));
    if (PyFrozenSet_CheckExact(value))  // the contents of a set
      return collect(Recipe::Step::Set, Ref::steal(PySequence_Tuple(value)));
    if (open_ && (fresh || PyWeakref_CheckRefExact(value))) return make_instance(value);
    return refuse(value, "which the call makes and which cannot be made again");
  }

  int make_instance(PyObject* value) {
    Ref build, parts;
    const bool opened = open_(value, build, parts);
    PyErr_Clear();
    if (!opened) return refuse(value, "which the call makes and which cannot be made again");
    const int step = collect(Recipe::Step::Instance, std::move(parts));
    if (step >= 0) effects_.recipes_[static_cast<size_t>(step)].constant = std::move(build);
    return step;
  }

  int collect(Recipe::Step step, Ref elements) {
    Recipe recipe{step};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(elements.get()); i++) {
      int part = make(PyTuple_GET_ITEM(elements.get(), i));
      if (part < 0) return -1;
      recipe.parts.push_back(part);
    }
    return add_step(std::move(recipe));
  }

  Effects& effects_;
  const Log& log_;
  const Facts& facts_;
  const Effects::Opener& open_;
  ska::flat_hash_set<PyObject*> being_made_;
  std::vector<Ref> kept_;  // what is known by its address below
  ska::flat_hash_set<int> tensor_steps_;
  std::string refusal_;
  bool has_tensor_ = false;
};

namespace {

Ref build(const Recipe& recipe, std::span<PyObject* const> tensors,
          const Effects::Arguments& arguments, std::span<PyObject* const> results,
          const std::vector<Ref>& made) {
  auto part = [&](size_t i) { return made[static_cast<size_t>(recipe.parts[i])].get(); };
  auto size = static_cast<Py_ssize_t>(recipe.parts.size());
  switch (recipe.step) {
    case Recipe::Step::Constant:
      return recipe.constant;
    case Recipe::Step::Object:
      // Held weakly, or by the place where the guards found it again.
      return Ref::borrow(recipe.object.weak() ? recipe.object.alive() : recipe.object.object());
    case Recipe::Step::Tensor:
      return Ref::borrow(tensors[static_cast<size_t>(recipe.tensor)]);
    case Recipe::Step::Number:
      return Ref::steal(
          PyObject_CallMethod(tensors[static_cast<size_t>(recipe.tensor)], "item", nullptr));
    case Recipe::Step::Argument:
      return Ref::borrow(arguments(recipe.argument));
    case Recipe::Step::Result:
      return Ref::borrow(results[static_cast<size_t>(recipe.result)]);
    case Recipe::Step::Dict: {
      Ref dict = Ref::steal(PyDict_New());
      for (size_t i = 0; dict && i + 1 < recipe.parts.size(); i += 2)
        if (PyDict_SetItem(dict.get(), part(i), part(i + 1)) < 0) return Ref();
      return dict;
    }
    default:
      break;
  }
  Ref elements = Ref::steal(PyTuple_New(size));
  for (Py_ssize_t i = 0; i < size; i++)
    PyTuple_SET_ITEM(elements.get(), i, Py_NewRef(part(static_cast<size_t>(i))));
  if (recipe.step == Recipe::Step::List) return Ref::steal(PySequence_List(elements.get()));
  if (recipe.step == Recipe::Step::Set) return Ref::steal(PySet_New(elements.get()));
  if (recipe.step == Recipe::Step::Instance) {
    Ref parts = Ref::steal(PySequence_List(elements.get()));
    return Ref::steal(PyObject_CallOneArg(recipe.constant.get(), parts.get()));
  }
  return elements;
}

}  // namespace

Effects::Effects(const Log& log, const Facts& facts, const Opener& open) {
  EffectBuilder builder(*this, log, facts, open);
  for (const Location& location : log.locations())
    if (location.written && !log.is_rewritten(location)) builder.add(location);
  std::sort(effects_.begin(), effects_.end(),
            [](const Effect& a, const Effect& b) { return a.order < b.order; });
}

void Effects::share(const Numbers& results) {
  for (const auto& [object, step] : made_) {
    Recipe& recipe = recipes_[static_cast<size_t>(step)];
    const auto found = results.find(object);
    const bool made = recipe.step == Recipe::Step::Tuple || recipe.step == Recipe::Step::List ||
                      recipe.step == Recipe::Step::Dict || recipe.step == Recipe::Step::Instance;
    if (!made || found == results.end()) continue;
    recipe = {.step = Recipe::Step::Result, .result = found->second};
  }
  made_.clear();
}

bool Effects::replay(std::span<PyObject* const> tensors, const Arguments& arguments,
                     std::span<PyObject* const> results) const {
  // A write may put something else where an argument was found, so all of them come first.
  std::vector<Ref> made, containers;
  for (const Effect& effect : effects_)
    containers.push_back(
        Ref::borrow(effect.argument < 0 ? effect.container : arguments(effect.argument)));
  for (const Recipe& recipe : recipes_) {
    made.push_back(build(recipe, tensors, arguments, results, made));
    if (made.back()) continue;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "an object to be stored is gone");
    return false;
  }
  for (size_t i = 0; i < effects_.size(); i++) {
    const Effect& effect = effects_[i];
    PyObject* container = containers[i].get();
    if (effect.moved && !store(effect.kind, container, effect.key.get(), nullptr)) return false;
    if (!effect.updates.empty()) {
      Ref value = value_at(effect.kind, container, effect.key.get());
      for (const auto& [kind, swapped, operand] : effect.updates)
        if (value)
          value = apply(kind, swapped, value.get(), made[static_cast<size_t>(operand)].get());
      if (!value || !store(effect.kind, container, effect.key.get(), value.get())) return false;
      continue;
    }
    PyObject* value = effect.value < 0 ? nullptr : made[static_cast<size_t>(effect.value)].get();
    if (!store(effect.kind, container, effect.key.get(), value)) return false;
  }
  return true;
}

std::vector<int> Effects::arguments() const {
  std::vector<int> roots;
  for (const Effect& effect : effects_)
    if (effect.argument >= 0) roots.push_back(effect.argument);
  for (const Recipe& recipe : recipes_)
    if (recipe.argument >= 0) roots.push_back(recipe.argument);
  return roots;
}

bool Effects::concern(PyObject* object) const {
  const auto stored = [&](const Recipe& recipe) {
    return recipe.step == Recipe::Step::Object && recipe.object.object() == object;
  };
  const auto changed = [&](const Effect& effect) { return effect.container == object; };
  return std::ranges::any_of(recipes_, stored) || std::ranges::any_of(effects_, changed);
}

int Effects::visit(visitproc visit, void* argument) const {
  for (const Ref& tensor : tensors_)
    if (tensor)
      if (int stop = visit(tensor.get(), argument)) return stop;
  for (const Recipe& recipe : recipes_)
    if (recipe.constant)
      if (int stop = visit(recipe.constant.get(), argument)) return stop;
  return 0;
}

}  // namespace fulgurite::pystate
