// A trace as a complete Python program that needs `import torch` alone.
//
// Every call of the text is the trace's: the same operator, overload and arguments, under the same
// grad mode, with autocast off. What the text reads from its surroundings is the default dtype
// and device, where an argument leaves them open (dtype=None) and where Python numbers meet integer
// tensors: it is to be run under those of the capture.
#pragma once

#include <string>

#include "ir/trace.h"

namespace fulgurite {

struct PrintOptions {
  bool times = false;           // how long the pass took, on the provenance line
  int depth = 0;                // levels of call bodies to add as comments
  bool explicit_calls = false;  // every call as torch.ops.ns.op.overload(), no argument left out
};

std::string print(const Trace& trace, const PrintOptions& options = {});

// As it is spelled in the program: its name, or t<number>.
std::string spell(const Trace& trace, ValueId id);

// "cpu f32[2, 3]", and what is out of the ordinary: "strides (1, 2)" where the value is not
// contiguous, "grad" where it requires grad, "conj", "neg".
std::string print_type(const TensorType& type);

// One call, as its line of the program without the comment: "t3 = torch.add(a, b)". Costs a look
// at the whole trace; CallText (call_text.h) is for many calls of one trace.
std::string print_call(const Trace& trace, const Call& call);

}  // namespace fulgurite
