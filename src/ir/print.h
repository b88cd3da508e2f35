// A trace as a complete Python program that needs `import torch` alone.
#pragma once

#include <string>

#include "ir/trace.h"

namespace fulgurite {

struct PrintOptions {
  bool times = false;  // how long the pass took, on the provenance line
  int depth = 0;       // levels of call bodies to add as comments
};

std::string print(const Trace& trace, const PrintOptions& options = {});

// As it is spelled in the program: its name, or t<number>.
std::string spell(const Trace& trace, ValueId id);

// "cpu f32[2, 3]"; strides are shown where the value is not contiguous.
std::string print_type(const TensorType& type);

// One call, as its line of the program without the comment: "t3 = torch.add(a, b)".
std::string print_call(const Trace& trace, const Call& call);

}  // namespace fulgurite
