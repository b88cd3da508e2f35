// The tables behind callees.h.
#pragma once

#include <span>

#include "pystate/callees.h"

namespace fulgurite::pystate {

struct CalleeRow {
  const char* owner;  // a module, or a type with its module
  // Separated by spaces; "get_*" stands for all functions, methods and types that begin so.
  const char* names;
  CallHandler handler;  // null takes back what a row further up says
  Handed handed = Handed::Unknown;
};

// Rows further down come over those further up. A name that does not exist is passed over.
std::span<const CalleeRow> builtin_callees();  // Python and its library
std::span<const CalleeRow> library_callees();  // torch and NumPy
// Types whose instances are called.
std::span<const CalleeRow> callable_types();

}  // namespace fulgurite::pystate
