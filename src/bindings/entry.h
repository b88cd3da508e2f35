// One compiled specialisation of a function, and the calls that it serves.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/outputs.h"
#include "compile/pipeline.h"

namespace fulgurite {

// Where a plan's input comes from on each call.
struct InputSource {
  enum class Kind : uint8_t {
    Argument,  // the tensor number `index` of the call's arguments
    Lifted,    // the tensor number `index` that the entry holds
    Gradient,  // the .grad of that one
  };
  Kind kind = Kind::Argument;
  int32_t index = 0;
};

// The key of a call, owned.
struct CallKey {
  Key key;
  std::vector<nb::object> compared;
  std::vector<nb::object> pins;  // the objects whose addresses are in the key, weakly if possible

  explicit CallKey(const Arguments& arguments);
  bool matches(const Arguments& arguments) const;
};

struct Entry {
  CallKey key;
  Compiled compiled;
  std::vector<InputSource> sources;
  std::vector<at::Tensor> lifted;
  std::vector<TensorGuard> lifted_guards;
  OutputTemplate output;
  nb::object record;         // what Python keeps about it
  bool eager = false;        // such calls run the user's function as it is
  uint64_t hits = 0;

  bool holds() const;        // what it was compiled for has not changed
  std::string changed() const;
  std::vector<at::Tensor> inputs(const Arguments& arguments) const;
};

// The entries of one function: found in constant time, least recently used dropped first.
class Entries {
 public:
  explicit Entries(size_t capacity) : capacity_(capacity) {}

  std::shared_ptr<Entry> find(const Arguments& arguments);
  void add(std::shared_ptr<Entry> entry);
  void clear();
  const std::list<std::shared_ptr<Entry>>& all() const { return order_; }

 private:
  using Order = std::list<std::shared_ptr<Entry>>;
  void drop_oldest();

  Order order_;  // the most recently used first
  std::unordered_map<uint64_t, c10::SmallVector<Order::iterator, 1>> by_hash_;
  size_t capacity_;
};

}  // namespace fulgurite
