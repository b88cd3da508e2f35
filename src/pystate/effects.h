// What a recorded run changed, and how to change it again.
#pragma once

#include <Python.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "pystate/facts.h"
#include "pystate/log.h"

namespace fulgurite::pystate {

enum class EffectClass : uint8_t {
  Exact,   // the new value is a constant, an old object, or made of such
  Tensor,  // the same, and has tensors that the run made
  Refuse,  // cannot be repeated
};

// How to make a value: one step, whose parts are steps before it.
struct Recipe {
  enum class Step : uint8_t {
    Constant,
    Object,
    Tensor,
    Number,  // that the tensor has
    Argument,
    Result,  // a container that is in the call's result, too
    Tuple,
    List,
    Dict,
    Set,
    Instance  // `constant`([parts]), where the parts are what it consists of
  } step;
  Ref constant;
  Expected object;
  int tensor = -1;         // index into Effects::tensors
  int argument = -1;       // which root it was
  int result = -1;         // number of the container in the result
  std::vector<int> parts;  // a dict's keys and values by turns
};

struct Effect {
  EffectClass kind_of_value;
  Kind kind;
  PyObject* container;  // an address: alive whenever the guards of the run hold
  Ref key;
  int argument = -1;  // which root it was, where it is a container among the arguments instead
  int value = -1;     // index into Effects::recipes; -1 removes
  // Instead of a value: operations on the number that is there, with recipes.
  struct Step {
    Arithmetic kind;
    bool swapped;
    int operand;
  };
  std::vector<Step> updates = {};
  uint32_t order = 0;
  bool moved = false;   // the key is removed first, so that it comes last
  std::string place;    // "model.counter"
  std::string what;     // "sets model.counter to 3"
  std::string refusal;  // why it cannot be repeated; "" if it can
  Where where;
  Ref code;  // of `where`
};

class Effects {
 public:
  // Takes an object apart that the run made: a callable that makes the like from a list of its
  // parts, and that list. False for what cannot be made again. Runs no code of the program.
  using Opener = std::function<bool(PyObject* object, Ref& build, Ref& parts)>;

  Effects() = default;
  Effects(const Log& log, const Facts& facts, const Opener& open);

  // In the order in which the program did them.
  const std::vector<Effect>& list() const { return effects_; }
  bool empty() const { return effects_.empty(); }
  const std::vector<Recipe>& recipes() const { return recipes_; }
  // Whether one of them stores this very object, or changes it.
  bool concern(PyObject* object) const;

  // The tensors of the run that are stored somewhere, each once; a compiled program has to return
  // them. They are given away, so that they can be freed.
  std::vector<Ref> take_tensors() { return std::move(tensors_); }

  // The containers among the arguments of the call, by their number among the roots.
  using Arguments = std::function<PyObject*(int root)>;

  // The containers that the run made and returned, with their numbers: what is stored are these
  // very objects. To be called while they are alive, at most once.
  using Numbers = ska::flat_hash_map<PyObject*, int>;
  void share(const Numbers& results);

  // Does it again. To be called right after Guards::check() held, with one tensor for each of those
  // taken, and the containers of the result by number. All effects can be repeated. Returns false
  // with a Python error set if that failed.
  bool replay(std::span<PyObject* const> tensors, const Arguments& arguments = {},
              std::span<PyObject* const> results = {}) const;

  // The roots among the arguments that replay() asks for.
  std::vector<int> arguments() const;

  int visit(visitproc visit, void* argument) const;

 private:
  friend class EffectBuilder;
  std::vector<Effect> effects_;
  std::vector<Recipe> recipes_;
  std::vector<Ref> tensors_;
  ska::flat_hash_map<PyObject*, int> made_;  // addresses, with their recipes; see share()
};

// Puts a value in its place; null removes. Contents are given as contents_of() gives them, items to
// append as a list. False with a Python error set if that fails.
bool store(Kind kind, PyObject* container, PyObject* key, PyObject* value);

// Undoes all that a run wrote, newest first. `context` is the state of the context variables
// before the first of them was written, if one was. False if something could not be undone.
bool undo(const Log& log, PyObject* context);

}  // namespace fulgurite::pystate
