// Elements that are made, joined, or found by an index.
#pragma once

#include "ops/element_rule.h"

namespace fulgurite::catalogue_families::rules {

// One number everywhere, which is the argument `at`.
template <size_t at>
Scalar filled(const ElementCall& call, const Place&) {
  return call.value(call.constant(at).toScalar());
}
template <int number>
Scalar filled_with(const ElementCall& call, const Place&) {
  return call.value(number);
}
Scalar identity_matrix(const ElementCall& call, const Place& place);
// start + index * step; the arguments are (end), (start, end) or (start, end, step).
Scalar counted(const ElementCall& call, const Place& place);
Scalar counted_from(const ElementCall& call, const Place& place);
Scalar counted_by(const ElementCall& call, const Place& place);
Scalar lower_triangle(const ElementCall& call, const Place& place);
Scalar upper_triangle(const ElementCall& call, const Place& place);

Scalar joined(const ElementCall& call, const Place& place);
Scalar stacked(const ElementCall& call, const Place& place);
Scalar padded(const ElementCall& call, const Place& place);
Scalar reflected(const ElementCall& call, const Place& place);
Scalar replicated(const ElementCall& call, const Place& place);
Scalar rolled(const ElementCall& call, const Place& place);

// A tensor with a part of it replaced, and zeros with a part of them replaced.
Scalar with_index(const ElementCall& call, const Place& place);
Scalar with_range(const ElementCall& call, const Place& place);
Scalar with_diagonal(const ElementCall& call, const Place& place);
Scalar zeros_with_index(const ElementCall& call, const Place& place);
Scalar zeros_with_range(const ElementCall& call, const Place& place);
Scalar zeros_with_diagonal(const ElementCall& call, const Place& place);
Scalar diagonal_matrix(const ElementCall& call, const Place& place);

// Rows of a table, slices, and elements, by index tensors. An index out of bounds fails.
Scalar embedded(const ElementCall& call, const Place& place);
Scalar slices_by_index(const ElementCall& call, const Place& place);
Scalar gathered(const ElementCall& call, const Place& place);
Scalar indexed(const ElementCall& call, const Place& place);
Scalar taken(const ElementCall& call, const Place& place);
// 1 where the last index is the element of an index tensor, else 0.
Scalar one_of_classes(const ElementCall& call, const Place& place);

}  // namespace fulgurite::catalogue_families::rules
