// Reading through a view, and writing through it without writing.
#pragma once

#include "passes/functionalise/builder.h"
#include "passes/functionalise/placement.h"

namespace fulgurite {

// The view of `base`.
ValueId view(Builder& builder, ValueId base, const ViewSteps& steps);

// The view of `base` with this type, by strides; `offset` counts from the start of the storage.
ValueId view_by_strides(Builder& builder, ValueId base, const TensorType& type, int64_t offset);

// Whether `put` can: no two elements of the view are one.
bool can_put(const ViewSteps& steps);

// A new value: `base` with the elements of its view replaced by those of `value`, which has the
// sizes of the view. Has the strides of `base` if any step selects.
ValueId put(Builder& builder, ValueId base, const ViewSteps& steps, ValueId value);
ValueId put_by_strides(Builder& builder, ValueId base, const TensorType& type, int64_t offset,
                       ValueId value);

// The same bits as another dtype. Of another size only if `base` is one contiguous dimension.
ValueId view_as(Builder& builder, ValueId base, c10::ScalarType dtype);
std::optional<TensorType> type_as(const TensorType& type, c10::ScalarType dtype);

// The conjugate, or the negative, as a lazy view.
ValueId view_conj(Builder& builder, ValueId base);
ValueId view_neg(Builder& builder, ValueId base);

// Copies into fresh memory: contiguous; or with the same strides, which have no gaps.
ValueId contiguous_copy(Builder& builder, ValueId value);
ValueId dense_copy(Builder& builder, ValueId value);

}  // namespace fulgurite
