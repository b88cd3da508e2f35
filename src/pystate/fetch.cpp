// Tensors that are taken from their places in each call, because a program leaves others there.
#include <algorithm>

#include "pystate/facts.h"

namespace fulgurite::pystate {
namespace {

bool is_plain_container(PyObject* object) {
  return PyTuple_CheckExact(object) || PyList_CheckExact(object) || PyDict_CheckExact(object);
}

// Whether the fact is about what a container has in it, and about nothing that comes with no other
// one of the same parts.
bool is_about_parts(const Fact& fact, PyObject* container) {
  if (PyTuple_Check(container)) return fact.kind == Kind::Part;
  switch (fact.kind) {
    case Kind::Key:
    case Kind::Present:
    case Kind::Item:
    case Kind::Contents:
    case Kind::Length:
      return !fact.written;
    default:
      return false;
  }
}

bool finds(const Fact& fact, PyObject* object) {
  return fact.value.object() == object ||
         std::ranges::any_of(fact.elements,
                             [&](const Expected& element) { return element.object() == object; });
}

}  // namespace

class Fetching {
 public:
  Fetching(Facts& facts, const Facts::Fetchable& fetchable) : facts_(facts), given_(fetchable) {}

  std::optional<Facts::Fetched> run(PyObject* tensor) {
    PyObject* object = tensor;
    for (int depth = 0; depth < kDeepest; depth++) {
      const int found = finder_of(object);
      if (found < 0) return std::nullopt;
      Fact& fact = facts_.facts[static_cast<size_t>(found)];
      if (may_be_taken(fact)) return take(object, found, tensor);
      if (!is_plain_container(fact.container) || !is_about_parts(fact, fact.container))
        return std::nullopt;
      object = fact.container;
    }
    return std::nullopt;
  }

 private:
  static constexpr int kDeepest = 8;

  // The one fact that finds the object, or one of those on the container that it is a part of; -1
  // where there are others.
  int finder_of(PyObject* object) const {
    int found = -1;
    for (size_t i = 0; i < facts_.facts.size(); i++) {
      const Fact& fact = facts_.facts[i];
      if (fact.dropped || !finds(fact, object)) continue;
      if (found >= 0) {
        const Fact& other = facts_.facts[static_cast<size_t>(found)];
        const bool one_container = fact.container == other.container &&
                                   is_plain_container(fact.container) &&
                                   is_about_parts(fact, fact.container);
        if (!one_container) return -1;
      }
      found = static_cast<int>(i);
    }
    return found;
  }

  bool may_be_taken(const Fact& fact) const {
    // What is known by a weak reference alone is not to be kept alive.
    if (fact.kind == Kind::Referent) return true;
    const bool one_place =
        fact.kind == Kind::Key || fact.kind == Kind::Item || fact.kind == Kind::Cell;
    const Place place{fact.kind, fact.container, fact.key.get()};
    return one_place &&
           (fact.written || std::ranges::find(given_.replaced, place) != given_.replaced.end());
  }

  // All of `root`, which the fact finds, or nothing.
  std::optional<Facts::Fetched> take(PyObject* root, int found, PyObject* tensor) {
    if (!is_free(root)) return std::nullopt;
    if (!is_tensor(root) && (!is_plain_container(root) || !read_parts(root, parts_, {})))
      return std::nullopt;
    for (PyObject* object : taken_) forget(object);
    for (auto& [part, path] : tensors_) facts_.fetched_parts_[part] = {found, std::move(path)};
    Fact& fact = facts_.facts[static_cast<size_t>(found)];
    fact.fetched = true;
    fact.value = Expected(reinterpret_cast<PyObject*>(Py_TYPE(root)));
    fact.parts = std::move(parts_);
    fact.variable = nullptr;
    if (root == tensor) return Facts::Fetched{found, {}};
    return facts_.fetched_parts_.at(tensor);
  }

  bool read_parts(PyObject* container, std::vector<Part>& parts, const std::vector<int>& path) {
    const auto size = parts_in(container);
    for (Py_ssize_t i = 0; i < size; i++) {
      PyObject* item = part_in(container, i);
      Part part;
      if (is_constant(item)) {
        part.constant = Expected(item);
      } else {
        const bool inner = is_plain_container(item) && path.size() < kDeepest;
        if (!(is_tensor(item) || inner) || !is_free(item) || !is_in_one_place(item, container))
          return false;
        std::vector<int> there = path;
        there.push_back(static_cast<int>(i));
        part.type = Expected(reinterpret_cast<PyObject*>(Py_TYPE(item)));
        if (inner && !read_parts(item, part.parts, there)) return false;
        if (!inner) tensors_.emplace_back(item, std::move(there));
      }
      parts.push_back(std::move(part));
    }
    return true;
  }

  bool is_in_one_place(PyObject* item, PyObject* container) const {
    const bool here = std::ranges::all_of(facts_.facts, [&](const Fact& fact) {
      return fact.dropped || !finds(fact, item) || fact.container == container;
    });
    int times = 0;
    for (Py_ssize_t i = 0; i < parts_in(container); i++) times += part_in(container, i) == item;
    return here && times == 1;
  }

  // Whether the program depends on no more of the object than comes with another one of its class
  // and with the same parts.
  bool is_free(PyObject* object) {
    if (facts_.identified_.count(object) || !given_.may_be_another(object)) return false;
    for (const Fact& fact : facts_.facts) {
      if (fact.dropped || fact.container != object) continue;
      const bool fits = is_tensor(object) ? fact.kind == Kind::Class || has_no_attributes(fact)
                                          : is_about_parts(fact, object);
      if (!fits) return false;
    }
    taken_.push_back(object);
    return true;
  }

  // Whether the fact is about the attributes of an object, and all that is known of them is which
  // are not there: methods are looked up so.
  bool has_no_attributes(const Fact& fact) {
    PyObject* attributes = fact.value.object();
    if (fact.kind != Kind::InstanceDict || !attributes) return false;
    for (const Fact& other : facts_.facts)
      if (!other.dropped && other.container == attributes &&
          (other.kind != Kind::Key || other.value.object()))
        return false;
    taken_.push_back(attributes);
    return true;
  }

  void forget(PyObject* object) {
    for (Fact& fact : facts_.facts) fact.dropped |= fact.container == object;
    facts_.holders.erase(object);
  }

  Facts& facts_;
  const Facts::Fetchable& given_;
  std::vector<PyObject*> taken_;  // with all that is known of them
  std::vector<Part> parts_;
  std::vector<std::pair<PyObject*, std::vector<int>>> tensors_;
};

std::optional<Facts::Fetched> Facts::fetch(PyObject* tensor, const Fetchable& fetchable) {
  if (const auto known = fetched_parts_.find(tensor); known != fetched_parts_.end())
    return known->second;
  return Fetching(*this, fetchable).run(tensor);
}

}  // namespace fulgurite::pystate
