// Does a call fit the schema of its operator?
#pragma once

#include <string>

#include "ir/trace.h"

namespace fulgurite {

// What does not fit, "" where all does. For calls of ATen operators.
std::string schema_fault(const Call& call);

}  // namespace fulgurite
