// The Python state that a captured call depended on and changed, as its entry keeps it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <nanobind/nanobind.h>

#include "pystate/effects.h"
#include "pystate/facts.h"
#include "pystate/guards.h"

namespace fulgurite {

namespace nb = nanobind;

struct StateRecord {
  pystate::Guards guards;
  pystate::Effects effects;
  int first_argument = 0;     // how many roots come before the containers among the arguments
  size_t effect_tensors = 0;  // how many outputs of the plan, the last ones, are stored by effects

  // Repeats the effects, with these tensors in them, and what the result has in it by number. False
  // with a Python error set.
  bool replay(const std::vector<at::Tensor>& tensors, const std::vector<nb::object>& containers,
              const std::vector<nb::object>& results) const;
  int visit(visitproc visit, void* arg) const;
};

// Where the tensors were replaced for which entries wait that did not serve a call.
struct ReplacedTensors {
  std::vector<pystate::Place> places;
};

// The data of a real tensor that the program read while it was captured. It is compared by value:
// a version counter does not tell of writes through NumPy.
struct ReadTensor {
  at::Tensor tensor;
  std::string bytes;  // of its elements, in order

  // Throws Unsupported for a tensor that is too large to be compared on every call.
  explicit ReadTensor(const at::Tensor& tensor);
  bool unchanged() const;
};

}  // namespace fulgurite
