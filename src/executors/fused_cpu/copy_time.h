// What the memory allows.
#pragma once

#include <cstdint>

namespace fulgurite {

// Nanoseconds of a copy that reads and writes `bytes` together, half of them each, on the threads
// that a kernel would run on: the median of as many as fit into so many seconds. 0 for less than
// two bytes.
double time_copy(int64_t bytes, double seconds);

}  // namespace fulgurite
