#include "bindings/bound_trace.h"

#include <torch/csrc/jit/python/pybind_utils.h>

namespace fulgurite {

nb::object constant_in_python(const c10::IValue& value) {
  if (value.isGenerator()) return nb::none();
  return nb::steal(torch::jit::toPyObject(value).release().ptr());
}

}  // namespace fulgurite
