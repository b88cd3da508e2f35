// Whether the Python state that a recorded run read is still what it was.
//
// A guard is an edge between two objects: this dict has this value under this key. The dict itself
// was found through another edge, so by induction from the roots the program will read the same
// values. Where nothing changed, only version tags and addresses are compared.
//
// The program's objects are held weakly, so that a cached result keeps no model alive. All members
// need the GIL.
#pragma once

#include <Python.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fulgurite::pystate {

struct Facts;
struct Place;

struct GuardDescription {
  std::string kind;   // "key", "class", ...
  std::string place;  // "model.config.use_cache"
  std::string file;   // where it was read first
  int line = 0;
};

class Guards {
 public:
  Guards();  // of nothing: always hold
  explicit Guards(std::unique_ptr<Facts> facts);
  ~Guards();
  Guards(Guards&&) noexcept;
  Guards& operator=(Guards&&) noexcept;

  // Runs no Python code. Microseconds for a whole model.
  bool check();
  // After a check() that failed: "model.config.use_cache was True, is now False".
  std::string explain() const;
  // After a check() that failed because a place holds another tensor than the one it held: where.
  std::optional<Place> replaced_tensor() const;
  // For Facts::fetch(); to be followed by rebuild().
  Facts* changeable_facts();
  void rebuild();
  // An object that the run read from is gone, so that check() can never hold again.
  bool expired() const;

  size_t count() const;
  std::vector<GuardDescription> describe() const;
  const Facts& facts() const;

  // For the tp_traverse and tp_clear of the Python object that owns this.
  int visit(visitproc visit, void* argument) const;
  void clear();

 private:
  struct Program;
  std::unique_ptr<Program> program_;
};

}  // namespace fulgurite::pystate
