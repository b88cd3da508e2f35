// What each instruction reads and writes. Opcodes not in the table touch nothing but the frame's
// own stack and local variables. For CPython 3.11.
#pragma once

#include "pystate/code_review.h"

namespace fulgurite::pystate {

class Recorder;
struct Instruction;

struct Decoded {
  int opcode, argument;
  int next;  // the instruction that follows
};
// Reads on from a prefix of an instruction (EXTENDED_ARG) to the instruction itself.
Decoded decode(const CodeReview& code, int index);

// x[i]
bool is_subscription(const Decoded& instruction);

// Notes what the instruction is about to do.
void observe(Recorder& recorder, const Instruction& at);

}  // namespace fulgurite::pystate
