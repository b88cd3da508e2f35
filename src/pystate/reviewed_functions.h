// Python functions of libraries that are understood as a whole and run without being watched. A
// table that one of them fills at its first use counts as if it had been full before.
#pragma once

#include <Python.h>

#include <string_view>

#include "pystate/interpreter.h"

namespace fulgurite::pystate {

class Recorder;

struct ReviewedFunction {
  std::string_view file_end, function;  // how the path of its file ends, and its qualified name
  // At the call: whether it runs unwatched this time.
  bool (*begin)(Recorder&, Frame*);
  // At the return of one that did, after a result or an error: notes what it depended on.
  void (*finish)(Recorder&, Frame*);  // null where that is nothing
};

// Null for others.
const ReviewedFunction* reviewed_function(PyCodeObject* code);

}  // namespace fulgurite::pystate
