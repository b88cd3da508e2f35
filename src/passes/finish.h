// What torch's autograd has to see of a program that is differentiated as a whole.
#pragma once

#include "ir/trace.h"

namespace fulgurite {

// `core` returns results that share no memory, and writes to no input that has, or gets, a history.
// `finish` is run after it, under torch's own autograd: it takes the inputs of the program and then
// the results of `core` (each once, and no inputs), writes to inputs, makes views, and returns the
// results of the program. So a view of a result is one to autograd: it has its base, and writes to
// the one are seen by the other. Without calls nothing is left to do, and `core` is the program
// itself.
struct Finished {
  Trace core, finish;
  std::vector<size_t> written;  // inputs, by `finish`
};

// `views`: results that are views of nothing else that is returned are made in `finish`, too, so
// that writes to them are seen by what shares their memory and is kept for the backward pass. Where
// that is not possible, as for what is changed in shape in place, all is left to `core`.
Finished finish_outside(const Trace& trace, bool views);

}  // namespace fulgurite
