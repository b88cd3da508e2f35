// What a compiled call gives back to Python: the user's structure around the plan's tensors.
#pragma once

#include <vector>

#include <ATen/ATen.h>
#include <nanobind/nanobind.h>

namespace fulgurite {

namespace nb = nanobind;

// A recipe for one result. Containers made by the captured call are made anew on every call;
// everything else is the very object that the captured call returned.
struct OutputTemplate {
  enum class Kind : uint8_t {
    Tensor,    // outputs[index]
    Constant,  // `object`
    Tuple,
    List,
    Dict,      // `object`: the list of keys
    Build,     // `object`(children)
    Again,     // the container that was made as number `index`, once more
    Argument,  // the container number `index` among the arguments
  };

  Kind kind = Kind::Constant;
  int32_t index = -1;
  nb::object object;
  std::vector<OutputTemplate> children;
};

// From its form in Python: (kind name, index or object, children).
OutputTemplate read_template(nb::handle description);

// A new reference, or null with a Python error set. `made` gets the containers by number.
PyObject* build(const OutputTemplate& output, const std::vector<at::Tensor>& tensors,
                const std::vector<nb::object>& arguments, std::vector<nb::object>& made);

int visit(const OutputTemplate& output, visitproc visit, void* arg);

}  // namespace fulgurite
