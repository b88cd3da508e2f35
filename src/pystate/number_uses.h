// Where code uses a number that it loads from some place for nothing but to compute with it, and
// then stores the result in the same place (`self.calls += 1`) or compares it (`self.calls % 10 ==
// 0`): the number itself goes nowhere else.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace fulgurite::pystate {

struct CodeReview;

enum class Arithmetic : uint8_t { Add, Subtract, Multiply, Divide, FloorDivide, Remainder };

// An operator that the number goes through. Indexes are those of instructions.
struct Operator {
  int index;
  Arithmetic kind;
  bool swapped;  // the number is the second operand
};

inline constexpr int kTruth = -1;  // beside the comparisons of Python (Py_LT, ...)

struct NumberUse {
  int load, end;
  std::vector<Operator> operators;
  bool stores = false;      // at the end; else it asks
  int comparison = kTruth;  // what it asks
  bool swapped = false;     // the number is the second operand of the comparison
};

// Of CPython 3.11.
std::vector<NumberUse> find_number_uses(const CodeReview& code);

// "+"
std::string_view text_of(Arithmetic kind);
std::string_view text_of_comparison(int comparison);

}  // namespace fulgurite::pystate
