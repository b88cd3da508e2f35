// Scalar expressions: what a pointwise rule says about one element.
//
// An expression is a graph of statements, each used any number of times and never written twice
// (equal statements are one). It names no target: printers turn it into C++ or CUDA.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

namespace fulgurite {

// Functions of real numbers that a target has or a prelude defines, named as C names them.
// clang-format off
enum class Function : uint8_t {
  acos, acosh, asin, asinh, atan, atan2, atanh, ceil, cos, cosh, erf, erfc, exp, exp2, expm1,
  floor, fmod, hypot, log, log10, log1p, log2, nearbyint, nextafter, pow, sin, sinh, sqrt, tan,
  tanh, trunc,
  exp_negative,  // exp(x) for x <= 0; 0 where the result would be no normal number
  gelu_tanh,  // x / (1 + exp(-2 sqrt(2 / pi) (x + 0.044715 x^3)))
  sigmoid,    // 1 / (1 + exp(-x))
  silu,       // x / (1 + exp(-x))
  count_
};
// clang-format on

// "acos", ...
const char* name_of(Function f);
int arity_of(Function f);
bool is_rounding(Function f);  // ceil and the like, which take no longer than an addition

// clang-format off
enum class Prim : uint8_t {
  Constant,  // of `dtype`
  Load,      // the access `at`, at the current place of the loop; args: offset (i64), guard
  Count,     // how many elements the reductions of a row go through; at: 1 if sampled; i64
  Index,     // the place along loop dimension `at`, i64
  Given,     // the number `at` of those that a run is given, i64
  Reduced,   // the result of reduction `at`, known once its pass is over
  RunningSum, RunningProduct,  // of a row up to here, one element after the other
  Add, Sub, Mul,
  Fma,       // args[0] * args[1] + args[2], rounded once
  Div,       // of integers: towards zero
  Rem,       // of integers, with the sign of the dividend
  Neg,
  Not, And, Or, Xor,  // of the bits; of bools
  ShiftLeft, ShiftRight,  // by less than the width; right shifts are arithmetic if signed
  Less, LessEqual, Equal, NotEqual,  // bool; false for NaN but for NotEqual
  Select,    // args: bool, then, else
  Convert,   // to `dtype`, as a C++ cast; to bool: is not 0
  Bits,      // the same bits as an integer or float of the same width
  Round,     // to the precision of `at` (a narrow ScalarType), still `dtype`
  Call,      // the function `at`
};
// clang-format on

struct ScalarNode {
  Prim prim = Prim::Constant;
  c10::ScalarType dtype = c10::ScalarType::Float;  // never Half or BFloat16
  int32_t at = 0;
  std::array<int32_t, 3> args{-1, -1, -1};
  uint64_t constant = 0;  // bits of a double, or of an int64 for integers and bool

  bool takes_long() const { return prim == Prim::Call && !is_rounding(static_cast<Function>(at)); }
  bool operator==(const ScalarNode&) const = default;
};

class ScalarGraph {
 public:
  // The number of the statement; an equal one is found again.
  int32_t add(const ScalarNode& node);
  const ScalarNode& operator[](int32_t i) const { return nodes_[i]; }
  int32_t size() const { return static_cast<int32_t>(nodes_.size()); }
  // Statements come after their arguments.
  const std::vector<ScalarNode>& nodes() const { return nodes_; }

  // What depends on sizes and strides: the text of a kernel does not hold it.
  std::vector<int64_t> given;
  // Conditions. Where one does not hold at a place, the run has failed, and its results are void.
  std::vector<int32_t> checks;

 private:
  struct Hash {
    size_t operator()(const ScalarNode& node) const;
  };
  std::vector<ScalarNode> nodes_;
  std::unordered_map<ScalarNode, int32_t, Hash> numbers_;
};

// The dtype in which values of `dtype` are computed: f32 for the narrow floats, else itself.
c10::ScalarType computed_in(c10::ScalarType dtype);

double double_of(const ScalarNode& constant);
int64_t int_of(const ScalarNode& constant);

// A handle to a statement, with the operators of C++. Both sides have one dtype; a number beside a
// Scalar takes its dtype.
struct Scalar {
  ScalarGraph* graph = nullptr;
  int32_t node = -1;

  c10::ScalarType dtype() const { return (*graph)[node].dtype; }
  bool is_float() const { return c10::isFloatingType(dtype()); }
  bool is_bool() const { return dtype() == c10::ScalarType::Bool; }
  bool is_signed() const { return c10::isSignedType(dtype()); }
  // A constant of the same dtype.
  Scalar like(double value) const;
  Scalar like(int64_t value) const;
  Scalar like(int value) const { return like(int64_t{value}); }
};

Scalar constant(ScalarGraph& graph, c10::ScalarType dtype, const c10::Scalar& value);
const ScalarNode* as_constant(const Scalar& x);
// An i64 that a run is given; -1, 0 and 1 are constants.
Scalar given(ScalarGraph& graph, int64_t value);
// Adds a check: the calls of a run that fails run one by one, and raise what they raise.
void must_hold(Scalar condition);

Scalar unary(Prim prim, Scalar x);
Scalar binary(Prim prim, Scalar x, Scalar y);
Scalar call(Function f, Scalar x);
Scalar call(Function f, Scalar x, Scalar y);
Scalar fma(Scalar x, Scalar y, Scalar z);
Scalar select(Scalar condition, Scalar then, Scalar otherwise);
Scalar convert(Scalar x, c10::ScalarType dtype);
Scalar bits(Scalar x, c10::ScalarType dtype);
// To a narrow float and back.
Scalar round_to(Scalar x, c10::ScalarType narrow);

inline Scalar operator+(Scalar x, Scalar y) { return binary(Prim::Add, x, y); }
inline Scalar operator-(Scalar x, Scalar y) { return binary(Prim::Sub, x, y); }
inline Scalar operator*(Scalar x, Scalar y) { return binary(Prim::Mul, x, y); }
inline Scalar operator/(Scalar x, Scalar y) { return binary(Prim::Div, x, y); }
inline Scalar operator%(Scalar x, Scalar y) { return binary(Prim::Rem, x, y); }
inline Scalar operator&(Scalar x, Scalar y) { return binary(Prim::And, x, y); }
inline Scalar operator|(Scalar x, Scalar y) { return binary(Prim::Or, x, y); }
inline Scalar operator^(Scalar x, Scalar y) { return binary(Prim::Xor, x, y); }
inline Scalar operator<<(Scalar x, Scalar y) { return binary(Prim::ShiftLeft, x, y); }
inline Scalar operator>>(Scalar x, Scalar y) { return binary(Prim::ShiftRight, x, y); }
inline Scalar operator<(Scalar x, Scalar y) { return binary(Prim::Less, x, y); }
inline Scalar operator<=(Scalar x, Scalar y) { return binary(Prim::LessEqual, x, y); }
inline Scalar operator>(Scalar x, Scalar y) { return binary(Prim::Less, y, x); }
inline Scalar operator>=(Scalar x, Scalar y) { return binary(Prim::LessEqual, y, x); }
inline Scalar operator==(Scalar x, Scalar y) { return binary(Prim::Equal, x, y); }
inline Scalar operator!=(Scalar x, Scalar y) { return binary(Prim::NotEqual, x, y); }
inline Scalar operator-(Scalar x) { return unary(Prim::Neg, x); }
inline Scalar operator~(Scalar x) { return unary(Prim::Not, x); }
inline Scalar operator!(Scalar x) { return unary(Prim::Not, convert(x, c10::ScalarType::Bool)); }

template <class N>
concept PlainNumber = std::is_arithmetic_v<N>;

#define FULGURITE_WITH_NUMBER(op)     \
  template <PlainNumber N>            \
  Scalar operator op(Scalar x, N y) { \
    return x op x.like(y);            \
  }                                   \
  template <PlainNumber N>            \
  Scalar operator op(N x, Scalar y) { \
    return y.like(x) op y;            \
  }
FULGURITE_WITH_NUMBER(+)
FULGURITE_WITH_NUMBER(-)
FULGURITE_WITH_NUMBER(*)
FULGURITE_WITH_NUMBER(/)
FULGURITE_WITH_NUMBER(&)
FULGURITE_WITH_NUMBER(<)
FULGURITE_WITH_NUMBER(<=)
FULGURITE_WITH_NUMBER(>)
FULGURITE_WITH_NUMBER(>=)
FULGURITE_WITH_NUMBER(==)
FULGURITE_WITH_NUMBER(!=)
#undef FULGURITE_WITH_NUMBER

inline Scalar is_nan(Scalar x) { return x != x; }

}  // namespace fulgurite
