// The record of one run: which places in which objects were read before they were written, what
// they held at first, and which were written.
#pragma once

#include <Python.h>
#include <c10/util/flat_hash_map.h>

#include <optional>
#include <string>
#include <vector>

#include "pystate/numbers.h"
#include "pystate/ref.h"
#include "pystate/values.h"

namespace fulgurite::pystate {

using LocationId = int32_t;
constexpr LocationId kUnknown = -1;

// A point in the program. The code object is kept alive by the recording.
struct Where {
  PyCodeObject* code = nullptr;
  int instruction = 0;
};

struct Location {
  Kind kind;
  bool read = false;  // before any write: its entry value must be the same in a later run
  bool written = false;
  bool moved = false;   // a key that was removed and put back: it comes last now
  PyObject* container;  // kept alive by the log
  Ref key;              // empty for kinds without
  Ref entry;            // what it held at first; empty if nothing
  Ref replaced;         // of a dict's contents: a set of keys that had been given new values
  Where where;          // of the first touch, or of the first write
  uint32_t order = 0;   // of writes; a key that is put back after its removal counts anew
  // Of a slot of a tensor: what it held when the run ended. The capture then puts tensors back.
  std::optional<Ref> last = std::nullopt;
  // See pystate/numbers.h. Whether the type of what it held at first must be the same in a later
  // run; whether all writes are updates, and which; what was asked of it.
  bool by_type = false;
  bool only_updates = false;
  std::vector<Operation> updates = {};
  std::vector<Question> questions = {};

  // Whether its number at first counts for nothing but its number at last.
  bool is_updated() const { return only_updates && !read && !updates.empty(); }
};

enum class Age : uint8_t {
  Old,       // made before the run: what it holds is a fact to be checked
  Fresh,     // made by the run: neither guarded nor restored
  Argument,  // a container whose contents the caller checks by itself
};

struct Known {
  Age age;
  LocationId origin = kUnknown;    // the place where it was found first
  int32_t root = -1;               // or which root it is, or belongs to
  LocationId contents = kUnknown;  // the location of its contents, which covers all others
  LocationId appended = kUnknown;
};

struct Root {
  std::string name;
  PyObject* object;
  bool argument = false;  // see Age::Argument
};

class Log {
 public:
  explicit Log(std::vector<Root> roots);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  const Known* known(PyObject* object) const;
  bool is_old(PyObject* object) const;
  // Made by the run, as far as is known: a tensor that was found nowhere is a result.
  bool is_fresh(PyObject* object) const;
  void add_old(PyObject* object, LocationId origin, int32_t root = -1);
  void add_fresh(PyObject* object);

  // Notes a read; returns the location, or kUnknown where none is needed.
  LocationId read(Kind kind, PyObject* container, PyObject* key = nullptr);
  // Notes a write, to be called before it happens. A dict or set is copied first.
  void write(Kind kind, PyObject* container, PyObject* key = nullptr);
  // Notes that the container will be emptied, whatever is in it.
  void clear(PyObject* container);
  // Notes that items will be put at the end of a list.
  void append(PyObject* list);

  // The one object that stands for all equal keys, borrowed; null where looking the key up could
  // run Python code.
  PyObject* canonical_key(PyObject* key);

  // Notes what a function, a bound method or the like consists of.
  void read_parts(PyObject* object);

  LocationId find(Kind kind, PyObject* container, PyObject* key) const;
  // Whether it is a part of contents that were written as a whole.
  bool is_rewritten(const Location& location) const;
  // What a container that was written held at first, as contents_of(); null if not written.
  PyObject* first_contents(PyObject* container) const;

  // Lets go of what only the log keeps alive: objects made by the run, and objects of unknown
  // origin with what was noted about them. No more notes after this.
  void settle();

  // What the places that were written hold now, by location; and whether any place that was there
  // before the run holds something else than it did then.
  std::vector<Ref> written_values() const;
  bool written_since(const std::vector<Ref>& then) const;

  std::vector<Location>& locations() { return locations_; }
  const std::vector<Location>& locations() const { return locations_; }
  const std::vector<Root>& roots() const { return roots_; }

  // What is read now is only computed with: where that is a number, its type is noted alone, and
  // its place is `number_place`.
  bool number_only = false;
  LocationId number_place = kUnknown;
  LocationId storing_number = kUnknown;  // the place whose update is being stored
  bool has_stored_number = false;        // it was written
  // The update is over: the place holds `result`.
  void end_update(LocationId place, PyObject* result, std::vector<Operation> updates);
  // Of what the place holds now. False where the answer does not follow from what it held at first.
  bool add_question(LocationId place, Question question);
  // What the place held at first counts.
  void need_value(LocationId place);

  Where here;  // where the program is
  // A container among the arguments was found in another place, too: what is checked with the
  // arguments does not hold for that place.
  bool found_argument_elsewhere = false;
  // Tensors of which the program asked which ones they are: addresses.
  ska::flat_hash_set<PyObject*> identified;

 private:
  struct Index {
    Kind kind;
    PyObject* container;
    PyObject* key;
    bool operator==(const Index&) const = default;
  };
  struct IndexHash {
    size_t operator()(const Index& index) const;
  };

  LocationId locate(Kind kind, PyObject* container, PyObject* key);
  Ref entry_of(Kind kind, PyObject* container, PyObject* key) const;
  Ref replaced_keys(PyObject* dict) const;
  void read_presence(PyObject* dict);
  void rewrite(Kind kind, PyObject* container, PyObject* key, bool from_the_old);
  void adopt(PyObject* value, LocationId from);
  bool is_loose(PyObject* container) const;
  void adopt_argument(const Known& owner, PyObject* value);
  void adopt_parts(PyObject* object);
  void pass_on(const Known& owner, Kind kind, PyObject* container, PyObject* key);
  LocationId read_appended(PyObject* list);
  void keep_contents(PyObject* container);
  void guard_unchanged();
  bool note_number(LocationId id);

  std::vector<Root> roots_;
  std::vector<Location> locations_;
  ska::flat_hash_map<Index, LocationId, IndexHash> index_;
  ska::flat_hash_map<PyObject*, Known> known_;   // owns a reference to each
  ska::flat_hash_map<PyObject*, Ref> contents_;  // of containers, before the first write
  Ref canonical_;
  uint32_t order_ = 0;
};

}  // namespace fulgurite::pystate
