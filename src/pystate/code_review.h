// Which Python code is watched, and what is kept for each code object.
#pragma once

#include <Python.h>

#include "pystate/number_uses.h"
#include "pystate/ref.h"
#include "pystate/reviewed_functions.h"

namespace fulgurite::pystate {

enum class Treatment : uint8_t {
  Watched,  // the user's code and the libraries'
  Library,  // Python's own library: watched, unless unwatched code calls it for its own ends
  Exempt,   // reviewed: reads nothing that could change, or what is tracked by other means
  Closed,   // reviewed: depends on nothing but its arguments, and neither does what it calls
  Import,   // finds and runs a module that was not imported before: once, whoever asked for it
  Message,  // reviewed: shows something to the user; nothing is noted while it runs
};

struct CodeReview {
  Treatment treatment = Treatment::Watched;
  const ReviewedFunction* function = nullptr;  // where it is one, and watched otherwise
  Ref instructions;                            // before specialisation
  const unsigned char* bytes = nullptr;        // of `instructions`
  int count = 0;
  std::vector<NumberUse> number_uses;
  uint64_t noted_by = 0;  // the last recording that keeps the code object alive
};

// Made once for each code object, and gone with it.
CodeReview& review_of(PyCodeObject* code);

}  // namespace fulgurite::pystate
