// What the rows of a region are, if it has reductions, and in which order they are computed.
#pragma once

#include <optional>

#include "codegen/loops/domain.h"
#include "codegen/loops/loop_program.h"
#include "codegen/loops/region.h"

namespace fulgurite {

struct Rows {
  const Call* first = nullptr;  // a call that reduces
  ValueId input = kNoValue;     // what it reduces
  RowDims dims;                 // of that
};

// All reductions of a region are over the same dimensions of one shape, or the region is refused.
std::optional<Rows> rows_of(const Region& region);

// Of the argument that it goes through.
RowDims row_dims(const Region& region, const Producer& producer);

// The first result that is not None.
ValueId first_value(const Call& call);

// What is gone through in rows; and what is multiplied with each of these, if the rule is of
// Factor.
const TensorType& input_of(const Region& region, const Producer& producer);
const TensorType& vector_of(const Region& region, const Producer& producer);

// Whether neighbours in memory are in different rows.
bool has_columns(const LoopProgram& program);

// Throws Unsupported for rows without elements of which something is read: what is the same all
// over a row may not be in memory at all, nor may the first part of a nest.
void refuse_empty_rows(const LoopProgram& program);

// Throws Unsupported for results of rows that differ along them, for reductions of running sums and
// for checks of what reductions give, whose
// loops come in another order, and for running sums of rows that several loops go through, where
// vectors have lanes beyond the end of the inner one.
void refuse_order(const LoopProgram& program);

// Sets the pass of each reduction.
void order_passes(LoopProgram& program);

}  // namespace fulgurite
