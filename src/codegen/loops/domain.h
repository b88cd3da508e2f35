// The loops of a program, and which places of tensors they go through.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/types.h"
#include "ops/place.h"

namespace fulgurite {

// Which elements of a tensor make a row.
struct RowDims {
  std::vector<bool> reduced;  // by dimension
  // Of a second dimension that is reduced: so many neighbours are in one row; 0 for all of them.
  int64_t group = 0;

  bool operator==(const RowDims&) const = default;
};

class Domain {
 public:
  // By dimension, the strides of loops over it besides 1.
  using Splits = std::map<size_t, std::set<int64_t>>;

  // Dimensions of more than one element, in the order in which they lie in memory; reduced ones are
  // innermost. `rows` may be null, and outlives this.
  Domain(const TensorType& shape, const RowDims* rows, Splits splits);

  const Dims& sizes() const { return sizes_; }  // of the shape's dimensions
  const Dims& loops() const { return loops_; }  // of the loops, outermost first
  int32_t reduced() const { return reduced_; }  // so many of the innermost loops
  // Of an element of a tensor of this shape.
  const Place& place() const { return place_; }
  // The dimension and the stride that a loop goes through.
  std::pair<size_t, int64_t> of_loop(size_t loop) const { return of_loop_.at(loop); }

  // Where an output of these sizes is written: at every place, or once a row (`per_row`). Throws
  // Unsupported where it is neither, and SplitLoop where it would be with more loops.
  Place place_of(ScalarGraph& graph, const Dims& sizes, bool& per_row) const;
  // Of a tensor with an element for each row, its dimensions of one element aside.
  std::optional<Place> row_place(const Dims& sizes) const;
  // Whether a tensor with an element for each row is read where it is broadcast over the row.
  bool is_row_place(const Dims& sizes, const Place& place) const;
  // Whether this is a place of the same row, in a tensor of this shape.
  bool is_in_row(const Place& place) const;

  int64_t elements_of_row() const;
  // The number of an element in its row, in row-major order of the reduced dimensions.
  IndexTerm index_in_row(ScalarGraph& graph) const;

 private:
  bool is_reduced(size_t d) const { return rows_ && rows_->reduced[d]; }
  bool is_cut(size_t d) const { return d == 1 && is_reduced(d) && rows_->group > 0; }
  // Which of a dimension's rows an element is in.
  IndexTerm row_term(size_t d) const;

  const RowDims* rows_;
  Dims sizes_, loops_;
  int32_t reduced_ = 0;
  Place place_;
  std::vector<std::pair<size_t, int64_t>> of_loop_;
};

}  // namespace fulgurite
