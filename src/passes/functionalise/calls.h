// The calls of the old trace, one by one.
#pragma once

#include "passes/functionalise/state.h"

namespace fulgurite {

// Takes over a call, or puts others in its place.
void take_over(State& state, const Call& call);

// Puts calls that write nothing (or nothing but memory of their own) in the place of one that
// writes or changes geometry.
void replace_write(State& state, const Call& call, const c10::SmallVector<int, 2>& written);

// The results of `call`, an old one, are made by `made`.
void bind_results(State& state, const Call& call, Call& made);

// Final writes to the inputs, and the outputs.
void add_epilogue(State& state);

}  // namespace fulgurite
