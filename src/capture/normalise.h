// A trace as recorded, made one that a pass can rely on.
#pragma once

#include <vector>

#include "ir/trace.h"

namespace fulgurite {

// A tensor made from Python data during capture is made anew in every run of the program, which
// may write to it: each run works on a copy.
struct ConstantCopy {
  ValueId original = kNoValue, copy = kNoValue;
  bool written = false;  // the memory of the copy, by whatever name
};

// Opens every call of which an inner value is used outside; empties bodies that use what their call
// does not get; drops copies of constants that nobody could tell from the original; sets the
// trace's mode: that at entry, or grad mode where results are differentiated all the same.
Trace normalise(Trace trace, GradMode entry_mode, const std::vector<ConstantCopy>& copies);

}  // namespace fulgurite
