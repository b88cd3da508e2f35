// What a kernel is called with; the text of every kernel declares the same structure.
//
// Pointers and strides (in elements) are given per access: first the loads, then the stores, in the
// order of the loop program. An access's pointer is at the first element of the loop.
#pragma once

#include <cstdint>

namespace fulgurite {

struct KernelArgs {
  void* const* pointers = nullptr;
  const int64_t* sizes = nullptr;    // of the loop's dimensions, outermost first
  const int64_t* strides = nullptr;  // strides[access * rank + dimension]
  int64_t streaming = 0;             // 1: what is written is not to stay in the caches
  const int64_t* given = nullptr;    // by the `at` of Given statements
  int64_t* failed = nullptr;         // set to 1 where a check does not hold
};

// Runs the places [begin, end) of the iteration space: elements in row-major order of the loop's
// dimensions, or rows where there are reductions.
using KernelFunction = void (*)(const KernelArgs*, int64_t begin, int64_t end);

}  // namespace fulgurite
