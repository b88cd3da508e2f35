// Where the program is, for the source lines and module paths of a trace.
#pragma once

#include <Python.h>

#include <memory>

#include "capture/tracer.h"

namespace fulgurite::pystate {

// While it lives, current_place() works on the thread that made it. One at a time per thread.
// Making and destroying it needs the GIL.
class PlaceTracking {
 public:
  PlaceTracking();
  ~PlaceTracking();
  PlaceTracking(const PlaceTracking&) = delete;
  PlaceTracking& operator=(const PlaceTracking&) = delete;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// The innermost frame of the user's or a library's code (code of torch and of this package is
// skipped; where there is no other, a frame of torch/nn serves), and the innermost nn.Module that
// is being called. False where neither is known or no tracking is on. Does not need the GIL, which
// it takes by itself when it meets a code object for the first time. Under 100 ns otherwise.
bool current_place(LanguageHooks::Place& place) noexcept;

// Whether the innermost frame is at an index expression (x[i]), and where. Needs the GIL.
bool is_indexing(LanguageHooks::Place& place);

// Whether a capture is under way on this thread, if only as the caller of what is no part of it.
bool places_are_tracked();

// The line of a place. Needs the GIL, and the tracking that gave the place must still live.
SourceLine source_of(const LanguageHooks::Place& place);

}  // namespace fulgurite::pystate
