// What a program did that no guard can cover and no replay can repeat.
#pragma once

#include <cstdint>
#include <string>

#include "pystate/log.h"

namespace fulgurite::pystate {

enum class Impure : uint8_t {
  Message,      // print, logging, warnings: shown once, while the program is recorded
  Import,       // the first import of a module: happens once in any program
  Random,       // draws from Python's or NumPy's generators
  Outside,      // clock, process, files, network, threads, locks
  Iterator,     // moves on an iterator that was made before
  TensorData,   // the numbers in a tensor, past the dispatcher
  TensorState,  // what a tensor is, changed past the dispatcher
  Identity,     // which object an argument is, or how it came to be
  Unreviewed,   // C code of which it is not known what it reads and writes
};
constexpr int kImpureKinds = 9;

// A set of kinds.
using ImpureSet = uint32_t;
constexpr ImpureSet only(Impure kind) { return 1u << static_cast<int>(kind); }
constexpr ImpureSet kAllImpure = (1u << kImpureKinds) - 1;
// What does no harm: the program may still be compiled.
constexpr ImpureSet kHarmless = only(Impure::Message) | only(Impure::Import);

struct Impurity {
  Impure kind;
  std::string what;  // "calls time.time(), which reads the clock"
  Where where;
  bool prevented;  // an error was raised before it could happen
};

inline const char* name_of(Impure kind) {
  constexpr const char* names[] = {"message",      "import",   "random",
                                   "outside",      "iterator", "tensor data",
                                   "tensor state", "identity", "unreviewed"};
  return names[static_cast<int>(kind)];
}

}  // namespace fulgurite::pystate
