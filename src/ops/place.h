// Where in a tensor an element of the loop's domain is read: one index per dimension, each a linear
// function of the loop's indices plus, where that does not do, a statement.
#pragma once

#include "ir/types.h"
#include "ops/scalar.h"

namespace fulgurite {

struct IndexTerm {
  int64_t constant = 0;
  Dims coefficients;       // per loop dimension
  int32_t statement = -1;  // i64, added; -1 for none

  bool is_constant() const;
  bool operator==(const IndexTerm&) const = default;
};

using Place = c10::SmallVector<IndexTerm, 5>;  // per dimension of a tensor

IndexTerm constant_index(int64_t value, size_t loop_rank);
IndexTerm loop_index(size_t dimension, size_t loop_rank);
// term * factor + offset
IndexTerm scaled(ScalarGraph& graph, IndexTerm term, int64_t factor, int64_t offset);
IndexTerm plus(ScalarGraph& graph, const IndexTerm& a, const IndexTerm& b);
// As an i64 statement.
Scalar to_statement(ScalarGraph& graph, const IndexTerm& term);

// An index that is a statement.
IndexTerm computed_index(Scalar index, size_t loop_rank);

// The place in an operand of an element of the result. Throws Unsupported for an operand of more
// dimensions.
Place broadcast(const Dims& operand, const Place& place, size_t loop_rank);
// Whether loops of these sizes go through every element of a tensor, at this place.
bool covers(const Place& place, const Dims& sizes, const Dims& loops);

// Numbers that are equal for equal places and for no others.
std::vector<int64_t> key_of(const Place& place);

}  // namespace fulgurite
