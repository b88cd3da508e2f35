// Rules of operators that draw random numbers: so many for each element, in the order in which the
// elements lie in memory.
//
// The numbers are words of 32 bits of ATen's generator on the CPU, as they come. What an element
// takes of them is one value: a word (i32), or two of them (i64), of which the first to come is the
// lower half.
#pragma once

#include <span>

#include "ir/trace.h"
#include "ops/pointwise_rule.h"

namespace fulgurite {

// For which elements numbers are drawn.
struct DrawnElements {
  TensorType type;         // without gaps: i32 or i64 elements where the words would lie
  int32_t generator = -1;  // the argument that is one; -1 for none
};

struct DrawCall {
  ScalarGraph* graph = nullptr;
  c10::ScalarType nominal = c10::ScalarType::Float;  // of the first result
  std::span<const RuleArg> args;
  Scalar word;

  // An argument in its own dtype.
  Scalar value(size_t i) const;
  double number(size_t i) const;
  Scalar of(c10::ScalarType dtype, double number) const;
  // In [0, 1): f64 of two words, f32 of one, as at::uniform_real_distribution has it.
  Scalar uniform() const;
  // Whether such an f64 is below a number.
  Scalar is_below(double number) const;
};

struct DrawRule {
  // Throws Unsupported for a call that draws nothing, or other numbers.
  DrawnElements (*elements)(const Trace& trace, const Call& call) = nullptr;
  Results (*run)(const DrawCall& call) = nullptr;

  explicit operator bool() const { return run; }
};

}  // namespace fulgurite
