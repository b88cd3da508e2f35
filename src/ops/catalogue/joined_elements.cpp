// Elements of one tensor in one range of places, and of another elsewhere.
#include <algorithm>
#include <optional>

#include <c10/core/WrapDimMinimal.h>

#include "base/error.h"
#include "ir/layout.h"
#include "ops/catalogue/element_rules.h"

namespace fulgurite::catalogue_families::rules {
namespace {

using Element = std::function<Scalar()>;

// Every one is asked at every place.
constexpr size_t kMostParts = 8;

// first <= index < end, of a dimension of `size`; none where that holds for all of it.
std::optional<Scalar> in_range(const ElementCall& call, const IndexTerm& term, int64_t first,
                               int64_t end, int64_t size) {
  const Scalar index = call.index(term);
  std::optional<Scalar> inside;
  if (first > 0) inside = index >= call.given(first);
  if (end < size) {
    const Scalar below = index < call.given(end);
    inside = inside ? *inside & below : below;
  }
  return inside;
}

// What else there is, is there at all places.
Scalar replace(const ElementCall& call, Scalar condition, const Element& then, Scalar otherwise) {
  return select(condition, call.where(condition, then), otherwise);
}

Place moved(const ElementCall& call, Place place, size_t d, int64_t offset) {
  place[d] = scaled(*call.graph, place[d], 1, offset);
  return place;
}

Place without(Place place, size_t d) {
  place.erase(place.begin() + static_cast<std::ptrdiff_t>(d));
  return place;
}

// Parts side by side, the last one up to the end.
struct Part {
  int64_t end = 0;
  Element element;
};

Scalar side_by_side(const ElementCall& call, const IndexTerm& term,
                    const std::vector<Part>& parts) {
  if (parts.empty()) return call.value(0);  // of no elements
  if (parts.size() > kMostParts) throw Unsupported("so many parts are copied sooner one by one");
  if (parts.size() == 1) return parts[0].element();
  const int64_t size = parts.back().end;
  std::optional<Scalar> all;
  for (size_t i = parts.size(); i-- > 0;) {
    const int64_t first = i > 0 ? parts[i - 1].end : 0, end = parts[i].end;
    const Scalar x = call.where(*in_range(call, term, first, end, size), parts[i].element);
    all = all ? select(*in_range(call, term, 0, end, size), x, *all) : x;
  }
  return *all;
}

Scalar rolled_from(const ElementCall& call, const Place& place, size_t i) {
  const auto shifts = call.constant(1).toIntVector();
  auto dims = call.constant(2).toIntVector();
  if (dims.empty() && place.size() <= 1) dims = {0};
  if (dims.size() != shifts.size()) throw Unsupported("a roll across dimensions");
  const ElementSource source = call.tensor(0);
  if (i == dims.size() || place.empty()) return call.element(source, place);
  const size_t d = c10::maybe_wrap_dim(dims[i], static_cast<int64_t>(place.size()));
  const int64_t size = source.sizes()[d], shift = ((shifts[i] % size) + size) % size;
  const auto from = [&, d, i](int64_t offset) {
    return [&, d, i, offset] { return rolled_from(call, moved(call, place, d, offset), i + 1); };
  };
  if (shift == 0) return rolled_from(call, place, i + 1);
  return side_by_side(call, place[d], {{shift, from(size - shift)}, {size, from(-shift)}});
}

// The index in a padded dimension of `size` elements, as a statement within it.
using Fold = Scalar (*)(const ElementCall&, Scalar index, int64_t size);
Scalar folded(const ElementCall& call, const Place& place, Fold fold) {
  if (call.result->dtype == c10::ScalarType::Bool)
    throw Unsupported("bools, which ATen does not pad so");
  const ElementSource source = call.tensor(0);
  const auto padding = call.constant(1).toIntVector();
  Place at = place;
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    const size_t d = place.size() - 1 - i;
    const int64_t before = padding[2 * i], after = padding[2 * i + 1];
    at[d] = scaled(*call.graph, at[d], 1, -before);
    if (before <= 0 && after <= 0) continue;
    const Scalar inside = fold(call, call.index(at[d]), source.sizes()[d]);
    at[d] = computed_index(inside, call.loops->size());
  }
  return call.element(source, at);
}

// Eager spreads a part of other sizes, or raises an error.
ElementSource part_of_sizes(const ElementCall& call, size_t source, const Dims& sizes) {
  const ElementSource part = call.tensor(source);
  if (part.sizes() != sizes) throw Unsupported("a part of other sizes than its place");
  return part;
}

std::optional<Scalar> on_range(const ElementCall& call, const IndexTerm& term, int64_t size,
                               size_t start, size_t end, size_t step, int64_t& first,
                               int64_t& last) {
  if (call.number(step) != 1) throw Unsupported("a part of more than one step");
  const auto wrapped = [&](size_t i, int64_t otherwise) {
    const int64_t x = call.constant(i).isNone() ? otherwise : call.number(i);
    return std::clamp<int64_t>(x < 0 ? x + size : x, 0, size);
  };
  first = wrapped(start, 0);
  last = std::max(first, wrapped(end, size));
  return in_range(call, term, first, last, size);
}

struct Diagonal {
  Scalar here;
  Place place;  // of its element, in a tensor that has the diagonal for its last dimension
  Dims sizes;   // of that tensor
};
Diagonal diagonal_at(const ElementCall& call, const Place& place, int64_t offset, size_t row,
                     size_t column) {
  if (row == column) throw Unsupported("a diagonal of one dimension");
  Dims sizes;
  for (size_t d = 0; d < place.size(); ++d)
    if (d != row && d != column) sizes.push_back(call.result->sizes[d]);
  const int64_t rows = call.result->sizes[row], columns = call.result->sizes[column];
  sizes.push_back(std::max<int64_t>(
      0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns)));
  const IndexTerm along = offset >= 0 ? place[row] : place[column];
  const Scalar here =
      call.index(scaled(*call.graph, place[row], 1, offset)) == call.index(place[column]);
  Place at = without(without(place, std::max(row, column)), std::min(row, column));
  at.push_back(along);
  return {here, at, sizes};
}

// The tensor that a part is put into. Eager copies its whole storage: a part may be written to
// elements besides its own, and there is memory where there are no elements.
ElementSource copied_storage(const ElementCall& call) {
  if (!is_injective(*call.result) || numel(*call.result) == 0)
    throw Unsupported("a copy of memory rather than of elements");
  return call.tensor(0);
}

Scalar replaced_range(const ElementCall& call, const Place& place, size_t source, size_t dim,
                      const Element& otherwise) {
  const size_t d = call.dim(dim, place.size());
  int64_t first = 0, last = 0;
  const auto inside =
      on_range(call, place[d], call.result->sizes[d], dim + 1, dim + 2, dim + 3, first, last);
  Dims sizes = call.result->sizes;
  sizes[d] = last - first;
  const ElementSource given = part_of_sizes(call, source, sizes);
  const auto part = [&] { return call.element(given, moved(call, place, d, -first)); };
  return inside ? replace(call, *inside, part, otherwise()) : part();
}

Scalar replaced_index(const ElementCall& call, const Place& place, size_t source, size_t dim,
                      Scalar otherwise) {
  const size_t d = call.dim(dim, place.size());
  const int64_t index = c10::maybe_wrap_dim(call.number(dim + 1), call.result->sizes[d]);
  Dims sizes = call.result->sizes;
  sizes.erase(sizes.begin() + d);
  const ElementSource given = part_of_sizes(call, source, sizes);
  return replace(
      call, call.index(place[d]) == call.given(index),
      [&] { return call.element(given, without(place, d)); }, otherwise);
}

Scalar replaced_diagonal(const ElementCall& call, const Place& place, size_t source, size_t offset,
                         Scalar otherwise) {
  const Diagonal diagonal =
      diagonal_at(call, place, call.number(offset), call.dim(offset + 1, place.size()),
                  call.dim(offset + 2, place.size()));
  const ElementSource given = part_of_sizes(call, source, diagonal.sizes);
  return replace(
      call, diagonal.here, [&] { return call.element(given, diagonal.place); }, otherwise);
}

}  // namespace

Scalar joined(const ElementCall& call, const Place& place) {
  const size_t d = call.dim(1, place.size());
  std::vector<Part> parts;
  int64_t end = 0;
  for (const ElementSource& source : call.tensors(0)) {
    if (numel(*source.type) == 0) continue;
    const int64_t begin = end;
    end += source.sizes().at(d);
    parts.push_back({end, [&call, &place, source, d, begin] {
                       return call.element(source, moved(call, place, d, -begin));
                     }});
  }
  return side_by_side(call, place[d], parts);
}

Scalar stacked(const ElementCall& call, const Place& place) {
  const size_t d = call.dim(1, place.size());
  std::vector<Part> parts;
  int64_t end = 0;
  for (const ElementSource& source : call.tensors(0))
    parts.push_back(
        {++end, [&call, &place, source, d] { return call.element(source, without(place, d)); }});
  return side_by_side(call, place[d], parts);
}

Scalar padded(const ElementCall& call, const Place& place) {
  const ElementSource source = call.tensor(0);
  const auto padding = call.constant(1).toIntVector();
  std::optional<Scalar> inside;
  Place at = place;
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    const size_t d = place.size() - 1 - i;
    const int64_t before = padding[2 * i], after = padding[2 * i + 1], size = source.sizes()[d];
    at[d] = scaled(*call.graph, at[d], 1, -before);
    const int64_t end = call.result->sizes[d];
    const auto here = in_range(call, place[d], before, after > 0 ? before + size : end, end);
    if (here) inside = inside ? *inside & *here : *here;
  }
  const auto element = [&] { return call.element(source, at); };
  if (!inside) return element();
  return replace(call, *inside, element, call.value(call.constant(2).toScalar()));
}

Scalar reflected(const ElementCall& call, const Place& place) {
  return folded(call, place, [](const ElementCall& c, Scalar index, int64_t size) {
    const Scalar forth = select(index < 0, -index, index);
    const Scalar last = c.given(size - 1);
    return select(forth > last, last + last - forth, forth);
  });
}

Scalar replicated(const ElementCall& call, const Place& place) {
  return folded(call, place, [](const ElementCall& c, Scalar index, int64_t size) {
    const Scalar last = c.given(size - 1);
    return select(index < 0, index.like(0), select(index > last, last, index));
  });
}

Scalar rolled(const ElementCall& call, const Place& place) {
  return numel(*call.result) == 0 ? call.value(0) : rolled_from(call, place, 0);
}

Scalar with_index(const ElementCall& call, const Place& place) {
  return replaced_index(call, place, 1, 2, call.element(copied_storage(call), place));
}
Scalar with_range(const ElementCall& call, const Place& place) {
  const ElementSource source = copied_storage(call);
  return replaced_range(call, place, 1, 2, [&] { return call.element(source, place); });
}
Scalar with_diagonal(const ElementCall& call, const Place& place) {
  return replaced_diagonal(call, place, 1, 2, call.element(copied_storage(call), place));
}

Scalar zeros_with_index(const ElementCall& call, const Place& place) {
  return replaced_index(call, place, 0, 2, call.value(0));
}
Scalar zeros_with_range(const ElementCall& call, const Place& place) {
  return replaced_range(call, place, 0, 2, [&] { return call.value(0); });
}
Scalar zeros_with_diagonal(const ElementCall& call, const Place& place) {
  return replaced_diagonal(call, place, 0, 2, call.value(0));
}
Scalar diagonal_matrix(const ElementCall& call, const Place& place) {
  return replaced_diagonal(call, place, 0, 1, call.value(0));
}

}  // namespace fulgurite::catalogue_families::rules
