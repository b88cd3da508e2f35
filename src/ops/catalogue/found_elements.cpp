// Elements found by index tensors.
#include <algorithm>

#include "base/error.h"
#include "ops/catalogue/element_rules.h"

namespace fulgurite::catalogue_families::rules {
namespace {

using c10::ScalarType;

// An index into a dimension of `size`, from an index tensor; fails where it is out of bounds.
IndexTerm found(const ElementCall& call, const ElementSource& index, const Place& place,
                int64_t size, bool from_end = false) {
  const ScalarType dtype = index.type->dtype;
  if (dtype != ScalarType::Long && dtype != ScalarType::Int)
    throw Unsupported("a mask for an index");
  if (size == 0) throw Unsupported("an index into nothing");
  Scalar i = convert(call.read(index, place), ScalarType::Long);
  const Scalar end = call.given(size);
  if (from_end) i = select(i < 0, i + end, i);
  const Scalar inside = (i >= 0) & (i < end);
  must_hold(inside);
  return computed_index(select(inside, i, i.like(0)), call.loops->size());
}

}  // namespace

Scalar embedded(const ElementCall& call, const Place& place) {
  const ElementSource table = call.tensor(0);
  const Place which(place.begin(), place.end() - 1);
  return call.element(table, {found(call, call.tensor(1), which, table.sizes()[0]), place.back()});
}

Scalar slices_by_index(const ElementCall& call, const Place& place) {
  const ElementSource source = call.tensor(0), index = call.tensor(2);
  if (place.empty()) throw Unsupported("a slice of a single number");
  const size_t d = call.dim(1, place.size());
  Place at = place;
  const Place which = index.sizes().empty() ? Place() : Place{place[d]};
  at[d] = found(call, index, which, source.sizes()[d]);
  return call.element(source, at);
}

Scalar gathered(const ElementCall& call, const Place& place) {
  const ElementSource source = call.tensor(0), index = call.tensor(2);
  if (place.empty() || source.sizes().size() != place.size())
    throw Unsupported("an index into a single number");
  const size_t d = call.dim(1, place.size());
  Place at = place;
  at[d] = found(call, index, place, source.sizes()[d]);
  return call.element(source, at);
}

Scalar indexed(const ElementCall& call, const Place& place) {
  const ElementSource source = call.tensor(0);
  const std::vector<ElementSource> indices = call.tensors(1);
  size_t rank = 0, first = indices.size(), last = 0, count = 0;  // of the indices that are given
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i].type) continue;
    rank = std::max(rank, indices[i].sizes().size());
    first = std::min(first, i);
    last = i;
    ++count;
  }
  if (count == 0) return call.element(source, place);
  // What they select is where they are, or at the beginning where they are apart.
  const size_t start = last - first + 1 == count ? first : 0;
  const auto begin = place.begin() + static_cast<std::ptrdiff_t>(start);
  const Place which(begin, begin + static_cast<std::ptrdiff_t>(rank));
  Place rest(place.begin(), begin);
  rest.append(begin + static_cast<std::ptrdiff_t>(rank), place.end());
  Place at;
  for (size_t d = 0, kept = 0; d < source.sizes().size(); ++d) {
    if (d >= indices.size() || !indices[d].type) {
      at.push_back(rest[kept++]);
      continue;
    }
    const Place here = broadcast(indices[d].sizes(), which, call.loops->size());
    at.push_back(found(call, indices[d], here, source.sizes()[d], true));
  }
  return call.element(source, at);
}

Scalar one_of_classes(const ElementCall& call, const Place& place) {
  if (call.number(1) <= 0) throw Unsupported("as many classes as the data has");
  const Place which(place.begin(), place.end() - 1);
  const IndexTerm here = found(call, call.tensor(0), which, call.number(1));
  return convert(Scalar{call.graph, here.statement} == call.index(place.back()), ScalarType::Long);
}

Scalar taken(const ElementCall& call, const Place& place) {
  const ElementSource source = call.tensor(0);
  if (source.sizes().size() != 1) throw Unsupported("elements of several dimensions by one number");
  return call.element(source, {found(call, call.tensor(1), place, source.sizes()[0], true)});
}

}  // namespace fulgurite::catalogue_families::rules
