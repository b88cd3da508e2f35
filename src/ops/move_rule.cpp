#include "ops/move_rule.h"

#include <c10/core/WrapDimMinimal.h>

#include "base/error.h"

namespace fulgurite {
namespace {

// Takes from a linear index what one dimension of that stride contributes; the rest stays.
IndexTerm take(const MoveCall& call, IndexTerm& linear, int64_t stride) {
  const int64_t left = ((linear.constant % stride) + stride) % stride;
  IndexTerm taken = call.fixed((linear.constant - left) / stride);
  linear.constant = left;
  int64_t largest = linear.constant;  // of the rest
  for (size_t k = 0; k < linear.coefficients.size(); ++k) {
    int64_t& c = linear.coefficients[k];
    if (c < 0) throw Unsupported("a reshape of what runs backwards");
    if (c % stride == 0) {
      taken.coefficients[k] = c / stride;
      c = 0;
      continue;
    }
    const int64_t size = (*call.loops)[k];
    // Part of the loop goes beyond this dimension's stride.
    if (c * (size - 1) >= stride && stride % c == 0 && size % (stride / c) == 0)
      throw SplitLoop{k, stride / c};
    largest += c * (size - 1);
  }
  if (largest >= stride) throw Unsupported("a reshape that cuts through rows");
  return taken;
}

}  // namespace

size_t MoveCall::dim(size_t i, size_t rank) const {
  return c10::maybe_wrap_dim(number(i), static_cast<int64_t>(rank));
}

IndexTerm remainder_of(const MoveCall& call, IndexTerm term, int64_t size) {
  if (term.statement >= 0) throw Unsupported("a remainder of what is read by an index");
  if (size > 1) take(call, term, size);
  return size > 1 ? term : call.fixed(0);
}

Place reshaped(const MoveCall& call, const Place& place) {
  Place source(call.source->size(), call.fixed(0));
  // Dimensions of both shapes that have as many elements go by themselves, from the last ones on.
  size_t from = source.size(), to = place.size();
  while (from > 0) {
    const size_t from_end = from, to_end = to;
    int64_t elements = (*call.source)[--from], wanted = 1;
    while (wanted != elements && (to > 0 || from > 0)) {
      if ((wanted < elements && to > 0) || from == 0)
        wanted *= (*call.result)[--to];
      else
        elements *= (*call.source)[--from];
    }
    IndexTerm linear = call.fixed(0);
    int64_t stride = 1;
    for (size_t d = to_end; d-- > to; stride *= (*call.result)[d])
      linear = plus(*call.graph, linear, scaled(*call.graph, place[d], stride, 0));
    if (from_end - from == 1) {
      source[from] = linear;
      continue;
    }
    if (linear.statement >= 0) throw Unsupported("a reshape of what is read by an index");
    for (size_t d = from; d < from_end; ++d) {
      stride = 1;
      for (size_t e = d + 1; e < from_end; ++e) stride *= (*call.source)[e];
      if (stride > 0) source[d] = take(call, linear, stride);
    }
  }
  return source;
}

}  // namespace fulgurite
