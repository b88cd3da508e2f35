// A call as Python code has it: a tuple and a dict.
#pragma once

#include "bindings/arguments.h"

namespace fulgurite {

// `names` keeps the keywords alive, and the caller the rest.
struct GivenCall {
  c10::SmallVector<PyObject*, 8> all;
  nb::object names;
  Arguments arguments;

  GivenCall(nb::tuple args, nb::dict keywords, bool offsets) {
    for (nb::handle arg : args) all.push_back(arg.ptr());
    nb::list keys;
    for (auto [key, value] : keywords) {
      keys.append(key);
      all.push_back(value.ptr());
    }
    names = nb::tuple(keys);
    read_arguments(arguments, all.data(), static_cast<Py_ssize_t>(nb::len(args)), names.ptr(),
                   offsets);
  }
};

}  // namespace fulgurite
