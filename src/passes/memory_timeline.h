// How much memory of tensors a run of a trace needs, call by call.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/trace.h"

namespace fulgurite {

// Where the results of a region lie, if not in new memory of their own.
struct RegionMemory {
  // By result: arguments that it may be written over, tried in this order, where the region is the
  // last to use such an argument and nobody else holds its memory.
  std::vector<std::vector<ValueId>> over;
  // By result: an input of the trace that it is written into; kNoValue, or none at all: new memory.
  std::vector<ValueId> targets;
  int64_t scratch = 0;  // bytes that it takes while it runs
};

// nullopt: the calls of the region run one by one.
using MemoryOfRegion = std::function<std::optional<RegionMemory>(const Call&)>;

struct BytesOfValue {
  ValueId id = kNoValue;
  int64_t bytes = 0;
};

// All in bytes.
struct MemoryOfCall {
  int64_t allocated = 0;  // of new storages that its results lie in
  int64_t freed = 0;      // once it has run: of storages in which no value lives any more
  int64_t live = 0;       // after that
  int64_t peak = 0;       // the most at once while it ran, with what its body makes and drops
  std::vector<BytesOfValue> made;  // a value for each new storage
  std::vector<BytesOfValue> gone;  // the last value of each storage that is freed
  // (result, argument): written over the memory of the other one.
  std::vector<std::pair<ValueId, ValueId>> reused;
};

struct MemoryTimeline {
  std::vector<BytesOfValue> given;  // the first input of each storage
  int64_t inputs = 0;               // all of these: live before the first call
  int64_t held = 0;                 // of these, what is the caller's and stays live throughout
  int64_t peak = 0;
  int64_t live = 0;                 // at the end: what is held, and outputs
  int32_t peak_call = -1;           // the first call at which the peak is reached; -1: the inputs
  std::vector<MemoryOfCall> calls;  // one per Trace::calls
};

// `trace` says what every call frees, as the last of a series does. Arguments and lifted tensors
// are the caller's, and so are those of the program that a backward trace takes as saved ones; what
// the forward pass made for it, and gradients that come in, are freed after their last use.
//
// A storage has the bytes that its tensors say, gaps included; the result of a region has storage
// up to its last element. What a call takes while it runs is what its body makes, and what the
// catalogue says of an operator; what torch's own autograd saves for a trace in grad mode is not in
// it.
MemoryTimeline memory_timeline(const Trace& trace, const MemoryOfRegion& memory_of_region);

}  // namespace fulgurite
