// What was read in a recorded run, in a form that outlives the run without keeping the program's
// objects alive.
#pragma once

#include <Python.h>
#include <c10/util/flat_hash_map.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pystate/guards.h"
#include "pystate/log.h"

namespace fulgurite::pystate {

// An object that a place is expected to hold. It may be gone: then `object` is an address that is
// compared, never followed.
class Expected {
 public:
  Expected() = default;
  explicit Expected(PyObject* object);
  // Matches any object.
  static Expected anything();

  // Whether `now` (null: nothing) is that object, or an equal constant.
  bool matches(PyObject* now) const {
    return now == object_ ? !weak_ || weak()->wr_object == object_ : equals(now);
  }
  PyObject* object() const { return object_; }
  // The object if it is certain to be alive, else null.
  PyObject* alive() const;
  // The weak reference to it, where that is how it is held, else null.
  PyWeakReference* weak() const {
    return weak_ ? reinterpret_cast<PyWeakReference*>(keeper_.get()) : nullptr;
  }
  // What is kept alive by this, or null.
  PyObject* kept() const { return weak_ ? nullptr : keeper_.get(); }

 private:
  bool equals(PyObject* now) const;
  PyObject* object_ = nullptr;
  Ref keeper_;  // the object, or a weak reference to it; empty for what can have neither
  bool weak_ = false;
  bool any_ = false;
};

// A part of a tuple, list or dict that is another one in each call; keys and values by turns.
struct Part {
  Expected type;            // of a tensor or another container; nothing for a constant
  std::vector<Part> parts;  // of the container
  Expected constant;

  bool matches(PyObject* now) const;
};

struct Fact {
  Kind kind;
  PyObject* container;  // see Holder
  Ref key;
  Expected value;
  // Contents, Specials, Bases; Function: code, defaults, defaults by name
  std::vector<Expected> elements;
  Ref code;  // where it was read first
  int instruction = 0;
  PyObject** variable = nullptr;  // see variable_at()
  bool written = false;           // by the run, too
  // The place holds a tensor of the class `value`, another one in each call, or a container of
  // `parts`; or a number of that class, of which nothing else counts.
  bool fetched = false;
  std::vector<Part> parts;
  std::vector<Question> questions;  // about that number
  bool dropped = false;
};

// How the container of a fact is known to be alive when the fact is checked: it was found by
// another fact that is checked before, or it is held.
struct Holder {
  PyObject* object;
  PyTypeObject* type;  // compared, never followed
  int parent = -1;     // the fact that found it first, and that is checked before those on it
  int level = 0;       // facts on objects of one level need only those of lower levels
  Expected anchor;     // without a parent: the object
  Ref strong;          // without a parent: the object, where it cannot be held weakly
  int root = -1;
  PyObject** slot = nullptr;  // of an instance dict: where its owner keeps it
  // Whether it is sure to be the same object, and not just one at its address.
  bool certain = false;
  bool argument = false;  // of the call, or in one
  bool unknown = false;   // nobody knows how the program gets there
};

// Of a fact. An address, which may be no longer that of the container.
struct Place {
  Kind kind;
  PyObject* container;
  PyObject* key;
  bool operator==(const Place&) const = default;
};

struct Facts {
  // `log` is settled. Only what was read is taken over.
  explicit Facts(const Log& log);

  std::vector<Fact> facts;
  ska::flat_hash_map<PyObject*, Holder> holders;
  std::vector<std::string> root_names;

  const Holder* holder_of(PyObject* object) const;
  // The object of a holder if it is certain to be alive, else null.
  PyObject* alive(const Holder& holder) const;
  // What may be another object in each call: places that hold others than they did, whether or not
  // the run wrote to them, and objects of which the program needs to know more.
  struct Fetchable {
    std::vector<Place> replaced;
    std::function<bool(PyObject*)> may_be_another;
  };
  // The fact that says where a tensor is, or the container that has it as a part of parts.
  struct Fetched {
    int fact;
    std::vector<int> path;
  };
  // Lets another tensor be in the place of this one on each call. Nullopt where the program depends
  // on which tensor it is, or where its place is known by no fact, or is not replaced.
  std::optional<Fetched> fetch(PyObject* tensor, const Fetchable& fetchable);
  // Whether the program can be trusted to find the same object again when all facts hold.
  bool is_anchored(PyObject* object) const;
  // "model.config.use_cache"
  std::string path_of(const Fact& fact) const;
  std::string path_of(PyObject* object) const;
  std::string place_of(Kind kind, PyObject* container, PyObject* key) const;

  // "model.config.use_cache was True, is now False"; the containers of the fact are alive.
  std::string explain(const Fact& fact) const;
  GuardDescription describe(const Fact& fact) const;

 private:
  void hold(const Log& log, const std::vector<int>& index, PyObject* object);

  // fetch.cpp
  friend class Fetching;

  ska::flat_hash_set<PyObject*> identified_;              // see Log
  ska::flat_hash_map<PyObject*, Fetched> fetched_parts_;  // tensors within others: addresses
};

// Of a tuple, a list or a dict; borrowed.
Py_ssize_t parts_in(PyObject* container);
PyObject* part_in(PyObject* container, Py_ssize_t index);

// Names for messages.
const char* name_of(Kind kind);
// A short text for a value; never runs Python code of the program.
std::string short_repr(PyObject* value);

// Whether the fact holds now, by looking. Its container is alive and of the type it had.
bool holds(const Fact& fact);

}  // namespace fulgurite::pystate
