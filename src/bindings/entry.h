// One compiled specialisation of a function, and the calls that it serves.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/arguments.h"
#include "bindings/outputs.h"
#include "bindings/state_record.h"
#include "compile/pipeline.h"

namespace fulgurite {

// Where a plan's input comes from on each call.
struct InputSource {
  enum class Kind : uint8_t {
    Argument,  // the tensor number `index` of the call's arguments
    Lifted,    // the tensor number `index` that the entry holds
    Gradient,  // the .grad of that one
    State,     // the tensor that is in place `index` of the entry's
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
  bool expired() const;
};

// A place in the state of Python that holds another tensor in each call: a guard says which.
struct TensorPlace {
  int fact;
  std::vector<int> path;  // of parts, within a container that is there
  TensorGuard guard;
  int64_t offset, nbytes;  // in its storage, and of that
  bool is_view;            // a write to it reaches the gradient of another

  TensorPlace(int fact, std::vector<int> path, const at::Tensor& tensor);
  bool holds(PyObject* tensor) const;
};
// Of a tensor, such as program or user have set: those in a TensorPlace have none.
bool has_attributes(PyObject* tensor);

struct Entry {
  explicit Entry(const CallKey& key) : key(key) {}

  CallKey key;
  Compiled compiled;
  std::vector<InputSource> sources;
  std::vector<at::Tensor> lifted;
  std::vector<TensorGuard> lifted_guards;
  // Of a program that writes to its inputs, or differentiates: how they share memory. A write to
  // one is seen through the others.
  struct InMemory {
    int32_t first = 0;   // the first input in the same memory, by place in `sources`
    int64_t offset = 0;  // beyond that one, in elements of its own

    bool operator==(const InMemory&) const = default;
  };
  std::optional<std::vector<InMemory>> sharing;  // by input; nullopt where nothing depends on it
  OutputTemplate output;
  ContainerPlaces places;  // of the containers among the arguments; empty where none is needed
  std::vector<std::pair<int32_t, TensorGuard>> gradient_guards;  // by place in `lifted`
  std::vector<TensorPlace> places_of_tensors;
  std::vector<ReadTensor> reads;
  std::shared_ptr<const Plan> decisions;  // null where the program takes none on numbers
  std::vector<bool> taken;                // what they were
  std::shared_ptr<StateRecord> state;     // null: nothing is known of the state of Python
  nb::object record;                      // what Python keeps about it
  bool eager = false;                     // such calls run the user's function as it is
  uint64_t hits = 0;

  // Runs another program for the same inputs and outputs from now on; null: the one that it was
  // made with.
  void replace(const Compiled* program);
  bool is_replaced() const { return is_replaced_; }

  bool holds(const Arguments& arguments) const;  // what it was compiled for has not changed
  bool expired() const;  // it is known never to hold again: an object that it needs is gone
  std::string changed() const;
  // Those for which its backward pass is not made: another entry is to take its place.
  std::optional<OtherGradients> other_gradients() const;
  bool keeps_containers_apart(const Arguments& arguments) const;
  // Makes it serve calls alone whose tensors share memory as those of this call do.
  void watch_sharing(const Arguments& arguments);
  std::vector<at::Tensor> inputs(const Arguments& arguments) const;
  // The result of a call from what its plan gave, effects included; null with a Python error set.
  PyObject* finish(std::vector<at::Tensor> outputs, const Arguments& arguments) const;

 private:
  std::vector<Compiled> replaced_;  // the first one first; somebody may be running one
  bool is_replaced_ = false;

  std::vector<InMemory> find_sharing(const Arguments& arguments) const;
  pystate::Ref object_at(const TensorPlace& place) const;
  bool decides_the_same(const Arguments& arguments) const;
  std::string name_of(size_t lifted_index) const;
};

}  // namespace fulgurite
