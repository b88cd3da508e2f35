// Rules of operators that only move elements: where in which argument an element of the result is.
#pragma once

#include <span>

#include <ATen/core/ivalue.h>

#include "ops/place.h"

namespace fulgurite {

struct MoveCall {
  ScalarGraph* graph = nullptr;
  const Dims* loops = nullptr;                    // sizes of the loops that terms refer to
  const Dims* source = nullptr;                   // sizes of the first argument
  const Dims* result = nullptr;                   // sizes of the result
  int32_t which = 0;                              // of the results
  std::span<const c10::IValue* const> constants;  // by argument; null where it is a tensor

  int64_t number(size_t i) const { return constants[i]->toInt(); }
  // An argument that is a dimension of the source, or of the result.
  size_t dim(size_t i, size_t rank) const;
  IndexTerm fixed(int64_t value) const { return constant_index(value, loops->size()); }
};

// The place in the first argument. Throws Unsupported where there is none to be said, and
// SplitLoop where there would be with more loops.
struct MoveRule {
  Place (*run)(const MoveCall&, const Place&) = nullptr;
  explicit operator bool() const { return run; }
};

// A loop that is to be two: its indices are outer * inner + the inner index.
struct SplitLoop {
  size_t loop = 0;
  int64_t inner = 1;
};

// What is left of an index after dividing it by a size.
IndexTerm remainder_of(const MoveCall& call, IndexTerm term, int64_t size);

// From row-major sizes to others of as many elements.
Place reshaped(const MoveCall& call, const Place& place);

}  // namespace fulgurite
