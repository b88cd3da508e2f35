#include "ops/catalogue/move_rules.h"

#include <algorithm>

#include <c10/core/WrapDimMinimal.h>

namespace fulgurite::catalogue_families::rules {
namespace {

Place shifted(const MoveCall& call, Place place, size_t d, int64_t step, int64_t start) {
  place[d] = scaled(*call.graph, place[d], step, start);
  return place;
}

Place with_index(const MoveCall& call, Place place, size_t d, int64_t index) {
  place.insert(place.begin() + static_cast<std::ptrdiff_t>(d), call.fixed(index));
  return place;
}

}  // namespace

Place same_place(const MoveCall&, const Place& place) { return place; }

Place permuted(const MoveCall& call, const Place& place) {
  const auto dims = call.constants[1]->toIntVector();
  Place source = place;
  for (size_t i = 0; i < dims.size(); ++i)
    source[c10::maybe_wrap_dim(dims[i], static_cast<int64_t>(place.size()))] = place[i];
  return source;
}

Place transposed(const MoveCall& call, const Place& place) {
  Place source = place;
  if (!place.empty())
    std::swap(source[call.dim(1, place.size())], source[call.dim(2, place.size())]);
  return source;
}

Place matrix_transposed(const MoveCall&, const Place& place) {
  return Place(place.rbegin(), place.rend());
}

Place unsqueezed(const MoveCall& call, const Place& place) {
  Place source = place;
  source.erase(source.begin() + static_cast<std::ptrdiff_t>(call.dim(1, place.size())));
  return source;
}

Place expanded(const MoveCall& call, const Place& place) {
  const auto missing = static_cast<std::ptrdiff_t>(place.size() - call.source->size());
  Place source(place.begin() + missing, place.end());
  for (size_t d = 0; d < source.size(); ++d)
    if ((*call.source)[d] == 1) source[d] = call.fixed(0);
  return source;
}

Place selected(const MoveCall& call, const Place& place) {
  const size_t d = call.dim(1, call.source->size());
  return with_index(call, place, d, c10::maybe_wrap_dim(call.number(2), (*call.source)[d]));
}

Place sliced(const MoveCall& call, const Place& place) {
  const size_t d = call.dim(1, place.size());
  const int64_t size = (*call.source)[d];
  int64_t start = call.constants[2]->isNone() ? 0 : call.number(2);
  if (start < 0) start += size;
  return shifted(call, place, d, call.number(4), std::clamp<int64_t>(start, 0, size));
}

Place split_part(const MoveCall& call, const Place& place) {
  return shifted(call, place, call.dim(2, place.size()), 1, call.number(1) * call.which);
}

Place sized_part(const MoveCall& call, const Place& place) {
  const auto sizes = call.constants[1]->toIntVector();
  int64_t start = 0;
  for (int32_t i = 0; i < call.which; ++i) start += sizes[i];
  return shifted(call, place, call.dim(2, place.size()), 1, start);
}

Place unbound(const MoveCall& call, const Place& place) {
  return with_index(call, place, call.dim(1, call.source->size()), call.which);
}

Place repeated(const MoveCall& call, const Place& place) {
  const auto fresh = static_cast<std::ptrdiff_t>(place.size() - call.source->size());
  Place source(place.begin() + fresh, place.end());
  for (size_t d = 0; d < source.size(); ++d) {
    const int64_t size = (*call.source)[d];
    if (size != (*call.result)[d + static_cast<size_t>(fresh)])
      source[d] = remainder_of(call, source[d], size);
  }
  return source;
}

Place narrowed(const MoveCall& call, const Place& place) {
  const size_t d = call.dim(1, place.size());
  const int64_t start = call.number(2);
  return shifted(call, place, d, 1, start < 0 ? start + (*call.source)[d] : start);
}

Place on_diagonal(const MoveCall& call, const Place& place) {
  const size_t rank = call.source->size();
  const size_t row = call.dim(2, rank), column = call.dim(3, rank);
  const int64_t offset = call.number(1);
  Place source(rank);
  for (size_t d = 0, next = 0; d < rank; ++d) {
    if (d == row)
      source[d] = scaled(*call.graph, place.back(), 1, std::max<int64_t>(-offset, 0));
    else if (d == column)
      source[d] = scaled(*call.graph, place.back(), 1, std::max<int64_t>(offset, 0));
    else
      source[d] = place[next++];
  }
  return source;
}

Place in_window(const MoveCall& call, const Place& place) {
  if (call.source->empty()) return {};
  const size_t d = call.dim(1, call.source->size());
  Place source(place.begin(), place.end() - 1);
  source[d] = plus(*call.graph, scaled(*call.graph, source[d], call.number(3), 0), place.back());
  return source;
}

Place flipped(const MoveCall& call, const Place& place) {
  Place source = place;
  if (source.empty()) return source;
  for (int64_t d : call.constants[1]->toIntVector()) {
    const size_t at = c10::maybe_wrap_dim(d, static_cast<int64_t>(place.size()));
    source[at] = scaled(*call.graph, source[at], -1, (*call.source)[at] - 1);
  }
  return source;
}

}  // namespace fulgurite::catalogue_families::rules
