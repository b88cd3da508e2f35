// Pointwise rules: an operator as an expression of one element of each argument.
//
// A rule is a captureless lambda with a parameter per schema argument (those at the end may be left
// out), whose types say how each comes:
//   Scalar                 a tensor's element, or a number, in the dtype that the rule computes in
//   std::optional<Scalar>  the same of an argument that may be None
//   Raw                    a tensor's element or a number in its own dtype (narrow floats as f32)
//   Condition              as a bool
//   Plain                  a number, string, bool or None as it stands in the call
// A first parameter `Nominal` is the dtype that the rule computes in as ATen names it: its values
// are f32 where that is a narrow float. A rule returns a Scalar, or an array of one per result, of
// any dtype; it throws Unsupported where the call is to stay with ATen, saying why.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <tuple>

#include <ATen/core/ivalue.h>

#include "base/error.h"
#include "ops/scalar.h"

namespace fulgurite {

// An argument of a call; a tensor, unless `constant` is set.
struct RuleArg {
  Scalar value;
  c10::ScalarType dtype = c10::ScalarType::Float;  // as ATen has it: of a narrow float, that
  bool is_zero_dim = false;
  const c10::IValue* constant = nullptr;
};

struct RuleCall {
  ScalarGraph* graph = nullptr;
  c10::ScalarType nominal = c10::ScalarType::Float;
  bool rounds_numbers = false;  // numbers to a narrow `nominal`
  std::span<const RuleArg> args;
};

struct Raw {
  Scalar value;
};
struct Condition {
  Scalar value;
};
struct Nominal {
  c10::ScalarType dtype;
  ScalarGraph* graph;
  // A number in that dtype.
  Scalar number(const c10::Scalar& value) const {
    return constant(*graph, computed_in(dtype), value);
  }
};
struct Plain {
  const c10::IValue* value = nullptr;  // null where it is a tensor
  bool is_none() const { return !value || value->isNone(); }
  c10::Scalar number() const;
  std::string_view text() const { return value->toStringView(); }
};

// In which dtype a rule computes.
enum class ComputesIn : uint8_t {
  Result,    // the first result's
  Operands,  // that of all tensors and numbers together, as promotion has it
  First,     // the first argument's
};

using Results = c10::SmallVector<Scalar, 2>;

struct PointwiseRule {
  Results (*run)(const RuleCall&) = nullptr;
  ComputesIn computes_in = ComputesIn::Result;
  // Numbers are rounded to a narrow float, as where ATen makes tensors of them.
  bool rounds_numbers = false;
  // A small change of an argument may change the result by a lot. Nothing is computed differently
  // for that, but tests must know.
  bool jumps = false;
  // Tensors of one dimension lie along the second of the first argument's: those of channels.
  bool by_channel = false;

  explicit operator bool() const { return run; }
};

namespace rule_detail {

Scalar in_nominal(const RuleCall& call, const RuleArg& arg);
Scalar in_own_dtype(const RuleCall& call, const RuleArg& arg);

template <class T>
T unpack(const RuleCall& call, size_t i) {
  const RuleArg& arg = call.args[i];
  const bool none = arg.constant && arg.constant->isNone();
  if constexpr (std::is_same_v<T, Scalar>) {
    return in_nominal(call, arg);
  } else if constexpr (std::is_same_v<T, std::optional<Scalar>>) {
    return none ? std::nullopt : std::optional(in_nominal(call, arg));
  } else if constexpr (std::is_same_v<T, Raw>) {
    return Raw{in_own_dtype(call, arg)};
  } else if constexpr (std::is_same_v<T, Condition>) {
    return Condition{convert(in_own_dtype(call, arg), c10::ScalarType::Bool)};
  } else {
    static_assert(std::is_same_v<T, Plain>, "no parameter of a rule");
    return Plain{arg.constant};
  }
}

inline Results results_of(Scalar x) { return {x}; }
template <size_t n>
Results results_of(const std::array<Scalar, n>& all) {
  return Results(all.begin(), all.end());
}

template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class F, class R, class... Args>
struct Signature<R (F::*)(Args...) const> {
  template <size_t... i>
  static Results run(const RuleCall& call, std::index_sequence<i...>) {
    return results_of(F{}(unpack<Args>(call, i)...));
  }
  static Results run(const RuleCall& call) { return run(call, std::index_sequence_for<Args...>{}); }
};
template <class F, class R, class... Args>
struct Signature<R (F::*)(Nominal, Args...) const> {
  template <size_t... i>
  static Results run(const RuleCall& call, std::index_sequence<i...>) {
    return results_of(F{}(Nominal{call.nominal, call.graph}, unpack<Args>(call, i)...));
  }
  static Results run(const RuleCall& call) { return run(call, std::index_sequence_for<Args...>{}); }
};

template <class F>
constexpr PointwiseRule made(ComputesIn in, bool rounds_numbers, bool jumps) {
  return {[](const RuleCall& call) { return Signature<F>::run(call); }, in, rounds_numbers, jumps};
}

template <auto f>
struct Calls;
template <class R, class... Args, R (*f)(Args...)>
struct Calls<f> {
  R operator()(Args... args) const { return f(args...); }
};

}  // namespace rule_detail

// A function as a lambda.
template <auto f>
inline constexpr rule_detail::Calls<f> calls{};

// Computes in the result's dtype.
template <class F>
constexpr PointwiseRule elementwise(F) {
  return rule_detail::made<F>(ComputesIn::Result, false, false);
}
// The same, with jumps; numbers count as tensors.
template <class F>
constexpr PointwiseRule elementwise_jumps(F) {
  return rule_detail::made<F>(ComputesIn::Result, true, true);
}
// The same without jumps.
template <class F>
constexpr PointwiseRule elementwise_rounds(F) {
  return rule_detail::made<F>(ComputesIn::Result, true, false);
}
// Computes in the common dtype of the operands: comparisons and the like.
template <class F>
constexpr PointwiseRule compares(F) {
  return rule_detail::made<F>(ComputesIn::Operands, true, true);
}
// Computes in the dtype of the first argument.
template <class F>
constexpr PointwiseRule tests(F) {
  return rule_detail::made<F>(ComputesIn::First, true, true);
}

}  // namespace fulgurite
