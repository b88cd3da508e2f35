// How one strided tensor lies in another that shares its memory. Geometry alone: no operator is
// named, and any way that a program may have taken from one to the other gives the same answer.
#pragma once

#include <optional>

#include "ir/layout.h"
#include "ir/types.h"

namespace fulgurite {

// One step of the way from a tensor to a view of it.
struct ViewStep {
  enum class Kind : uint8_t {
    View,       // to the sizes `dims`
    Permute,    // dimension i of the result is dimension dims[i]
    Select,     // index `start` of dimension `dim`
    Slice,      // [start:stop:step] of dimension `dim`
    Unsqueeze,  // a dimension of size one at `dim`
    Expand,     // to the sizes `dims`
    Restride,   // to the strides `dims`, which differ in dimensions of size one alone
  };

  Kind kind = Kind::View;
  Dims dims;
  int64_t dim = 0, start = 0, stop = 0, step = 1;
};
using ViewSteps = c10::SmallVector<ViewStep, 3>;

// The type after a step, with the strides that torch gives; nothing where torch would refuse.
std::optional<TensorType> after(const TensorType& base, const ViewStep& step);

// The steps from `base` to `view`, whose offsets count elements of the same size in the same
// storage. They lead to exactly the sizes, strides and offset of `view`. Nothing where there is no
// such way, where either is empty, or where elements of `base` share memory.
std::optional<ViewSteps> place(const TensorType& base, const TensorType& view);

// Sizes, strides and offset are equal.
bool same_geometry(const TensorType& a, const TensorType& b);

}  // namespace fulgurite
