// Elements made of their place.
#include <cmath>

#include "base/error.h"
#include "ops/catalogue/element_rules.h"

namespace fulgurite::catalogue_families::rules {
namespace {

using c10::ScalarType;

// Up to which all integers are numbers of a float dtype.
double exact_integers(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::BFloat16:
      return 0x1p8;
    case ScalarType::Half:
      return 0x1p11;
    case ScalarType::Float:
      return 0x1p24;
    default:
      return 0x1p53;
  }
}

// ATen's vectors round where they begin, which depends on the machine and its threads.
void check_exact(ScalarType dtype, double start, double step, int64_t count) {
  const double last = start + step * static_cast<double>(count);
  const bool integers = start == std::trunc(start) && step == std::trunc(step);
  if (!integers || std::max(std::abs(start), std::abs(last)) > exact_integers(dtype) ||
      (start == 0 && std::signbit(start)))
    throw Unsupported("a range of floats that are rounded");
}

Scalar counted(const ElementCall& call, const Place& place, const c10::Scalar& start,
               const c10::Scalar& step) {
  const ScalarType dtype = call.result->dtype;
  if (c10::isFloatingType(dtype))
    check_exact(dtype, start.toDouble(), step.toDouble(), call.result->sizes.at(0));
  IndexTerm term = scaled(*call.graph, place[0], step.to<int64_t>(), start.to<int64_t>());
  return convert(call.index(term), computed_in(dtype));
}

Scalar triangle(const ElementCall& call, const Place& place, bool lower) {
  const size_t rank = place.size();
  const Scalar last = call.index(scaled(*call.graph, place[rank - 2], 1, call.number(1)));
  const Scalar column = call.index(place[rank - 1]);
  const Scalar kept = lower ? column <= last : column >= last;
  return select(kept, call.element(call.tensor(0), place), call.value(0));
}

}  // namespace

Scalar identity_matrix(const ElementCall& call, const Place& place) {
  return select(call.index(place[0]) == call.index(place[1]), call.value(1), call.value(0));
}

Scalar counted(const ElementCall& call, const Place& place) { return counted(call, place, 0, 1); }
Scalar counted_from(const ElementCall& call, const Place& place) {
  return counted(call, place, call.constant(0).toScalar(), 1);
}
Scalar counted_by(const ElementCall& call, const Place& place) {
  return counted(call, place, call.constant(0).toScalar(), call.constant(2).toScalar());
}

Scalar lower_triangle(const ElementCall& call, const Place& place) {
  return triangle(call, place, true);
}
Scalar upper_triangle(const ElementCall& call, const Place& place) {
  return triangle(call, place, false);
}

}  // namespace fulgurite::catalogue_families::rules
