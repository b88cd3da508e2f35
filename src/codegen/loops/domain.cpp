#include "codegen/loops/domain.h"

#include <algorithm>

#include "base/error.h"
#include "ops/move_rule.h"

namespace fulgurite {

Domain::Domain(const TensorType& shape, const RowDims* rows, Splits splits)
    : rows_(rows), sizes_(shape.sizes) {
  struct Loop {
    size_t dimension;
    int64_t stride, size;
    bool reduced;
  };
  std::vector<Loop> loops;
  for (size_t d = 0; d < sizes_.size(); ++d) {
    if (sizes_[d] == 1) continue;
    std::set<int64_t>& strides = splits[d];
    strides.insert(1);
    if (is_cut(d)) strides.insert(rows_->group);
    int64_t end = sizes_[d];
    for (auto it = strides.rbegin(); it != strides.rend(); end = *it++) {
      const bool reduced = is_reduced(d) && (!is_cut(d) || *it < rows_->group);
      loops.push_back({d, *it, end / *it, reduced});
    }
  }
  std::ranges::stable_sort(loops, [&](const Loop& a, const Loop& b) {
    if (a.reduced != b.reduced) return b.reduced;
    return a.stride * shape.strides[a.dimension] > b.stride * shape.strides[b.dimension];
  });
  for (const Loop& loop : loops) {
    loops_.push_back(loop.size);
    reduced_ += loop.reduced;
    of_loop_.emplace_back(loop.dimension, loop.stride);
  }
  // A row of one element is a row all the same.
  if (loops.empty() || (rows_ && reduced_ == 0)) loops_.push_back(1);
  if (rows_ && reduced_ == 0) reduced_ = 1;
  place_.assign(sizes_.size(), constant_index(0, loops_.size()));
  for (size_t i = 0; i < loops.size(); ++i)
    place_[loops[i].dimension].coefficients[i] = loops[i].stride;
}

IndexTerm Domain::row_term(size_t d) const {
  IndexTerm term = place_[d];
  if (is_cut(d))
    for (int64_t& c : term.coefficients) c /= rows_->group;  // 0 of the loops within a group
  return term;
}

std::optional<Place> Domain::row_place(const Dims& sizes) const {
  Place place(sizes.size(), constant_index(0, loops_.size()));
  size_t next = 0;  // of the dimensions given
  const auto skip_ones = [&] {
    while (next < sizes.size() && sizes[next] == 1) ++next;
  };
  for (size_t d = 0; d < sizes_.size(); ++d) {
    if (is_reduced(d) && !is_cut(d)) continue;
    const int64_t rows = is_cut(d) ? sizes_[d] / rows_->group : sizes_[d];
    if (rows == 1) continue;
    skip_ones();
    if (next == sizes.size() || sizes[next] != rows) return std::nullopt;
    place[next++] = row_term(d);
  }
  skip_ones();
  if (next != sizes.size()) return std::nullopt;
  return place;
}

Place Domain::place_of(ScalarGraph& graph, const Dims& sizes, bool& per_row) const {
  if (sizes == sizes_) return place_;
  if (!rows_) throw Unsupported("outputs of several shapes");
  if (const auto place = row_place(sizes)) {
    per_row = true;
    return *place;
  }
  const auto elements = [](const Dims& of) {
    int64_t count = 1;
    for (int64_t size : of) count *= size;
    return count;
  };
  if (elements(sizes) != elements(sizes_) || elements(sizes) == 0)
    throw Unsupported("outputs of several shapes");
  const MoveCall same{&graph, &loops_, &sizes, &sizes_, 0, {}};
  return reshaped(same, place_);
}

bool Domain::is_row_place(const Dims& sizes, const Place& place) const {
  if (sizes.size() != sizes_.size()) return false;
  for (size_t d = 0; d < place.size(); ++d) {
    if (is_cut(d)) return false;
    if (is_reduced(d) ? sizes[d] != 1 || !place[d].is_constant() : place[d] != place_[d])
      return false;
  }
  return true;
}

bool Domain::is_in_row(const Place& place) const {
  if (place.size() != place_.size()) return false;
  for (size_t d = 0; d < place.size(); ++d)
    if (is_cut(d) || (!is_reduced(d) && place[d] != place_[d])) return false;
  return true;
}

int64_t Domain::elements_of_row() const {
  int64_t elements = 1;
  for (size_t i = loops_.size() - static_cast<size_t>(reduced_); i < loops_.size(); ++i)
    elements *= loops_[i];
  return elements;
}

IndexTerm Domain::index_in_row(ScalarGraph& graph) const {
  IndexTerm index = constant_index(0, loops_.size());
  int64_t stride = 1;
  for (size_t d = sizes_.size(); d-- > 0;) {
    if (!is_reduced(d)) continue;
    if (is_cut(d)) throw Unsupported("places in rows of groups");
    index = plus(graph, index, scaled(graph, place_[d], stride, 0));
    stride *= sizes_[d];
  }
  return index;
}

}  // namespace fulgurite
