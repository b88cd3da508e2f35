// Rules of operators that reduce: a row is all elements that differ in the reduced dimensions
// alone.
//
// A rule sees the elements of its arguments at one place of a row; what it reduces is gone through
// for the whole row. It returns a Scalar per result, of the place or of the row.
#pragma once

#include <functional>
#include <span>

#include "ops/pointwise_rule.h"

namespace fulgurite {

enum class ReductionKind : uint8_t {
  Sum,
  Product,
  Maximum,  // NaN if any element is
  Minimum,
  MaximumNumber,  // of the elements that are numbers; for what is NaN later anyway
  Any,
  All,
};

class RowRuleCall {
 public:
  ScalarGraph* graph = nullptr;
  c10::ScalarType nominal = c10::ScalarType::Float;
  int64_t elements = 0;             // of a row
  bool without_dimensions = false;  // the first argument is
  std::span<const RuleArg> args;
  // Adds a reduction over the row, or over a few elements of it (`sampled`); see kSampled.
  std::function<Scalar(ReductionKind, Scalar, bool sampled)> reduction;
  // How many elements that goes through, in a float dtype.
  std::function<Scalar(c10::ScalarType, bool sampled)> count;
  // The number of the element in its row, in row-major order of the reduced dimensions; i64.
  std::function<Scalar()> index;

  // Over the row up to the element itself, one after the other.
  Scalar running_sum(Scalar x) const { return unary(Prim::RunningSum, x); }
  Scalar running_product(Scalar x) const { return unary(Prim::RunningProduct, x); }
  Scalar sum(Scalar x) const { return reduction(ReductionKind::Sum, x, false); }
  Scalar reduce(ReductionKind kind, Scalar x) const { return reduction(kind, x, false); }
  // An argument in the dtype that the rule computes in.
  Scalar value(size_t i) const;
  bool is_none(size_t i) const { return args[i].constant && args[i].constant->isNone(); }
  const c10::IValue& constant(size_t i) const { return *args[i].constant; }
};

// Elements of a row, spread over it, that stand for it where a sum is first shifted by about its
// mean.
inline constexpr int64_t kSampled = 64;

// Which dimensions a rule reduces.
enum class Reduces : uint8_t {
  All,       // of the first argument
  Dims,      // those of the argument `dim`: a number, a list, or all if None or empty
  Trailing,  // as many as the argument `normalized_shape` has
  // Tensors of one dimension then lie along the second of the first argument's: those of channels.
  Batch,   // all but the second
  Groups,  // all but the first, and of the second so many as make one of `group` groups
  // Of a matrix, the dimension by which it is multiplied with a vector. Other arguments are added
  // to the result, and broadcast to its shape.
  Factor,
};

struct RowRule {
  Results (*run)(const RowRuleCall&) = nullptr;
  Reduces reduces = Reduces::All;
  // Gradients. Where `output_mask` leaves the first one out, that of the argument, the dimensions
  // are those of the parameters' gradients: leading ones for trailing, Batch for Groups. A call
  // that is asked for both has parts.
  bool by_mask = false;
  // The argument that must be true; where it is not, nothing is reduced, and the operator's
  // pointwise rule holds.
  const char* when = nullptr;
  int32_t over = 0;  // the argument whose rows they are
  // Of Factor, the argument that is the vector: after the matrix of one dimension, before it a
  // matrix of one row. Both may be batches.
  int32_t vector = 0;

  explicit operator bool() const { return run; }
};

// A captureless lambda that takes a RowRuleCall and returns a Scalar or an array of them.
template <class F>
constexpr RowRule reduces(Reduces dims, F) {
  return {[](const RowRuleCall& row) { return rule_detail::results_of(F{}(row)); }, dims};
}

}  // namespace fulgurite
