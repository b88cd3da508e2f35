// Numbers that a program takes out of tensors with item() and computes with in its own language.
//
// Such a number is a value of the trace: a 0-dim float64 tensor on the CPU that counts as a number
// in type promotion (is_wrapped_number). Two operators make them:
//   fulgurite::item(Tensor tensor) -> Tensor                          tensor.item()
//   fulgurite::number(Tensor[] numbers, str expression) -> Tensor     1 - 0.9 ** n
// An expression has the form of Python, with parentheses around every operation and {0}, {1}, ...
// for the numbers; it means what it means for Python's floats. Running it throws UserError where
// Python raises an error (a division by zero, an overflow) or gives a complex number.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "ir/trace.h"

namespace fulgurite {

// The number in a tensor of one floating-point element, as a number of the trace that is being
// captured on this thread; nothing where its data is to be read: it is real and neither written
// nor, with `lift`, to be lifted.
std::optional<at::Tensor> number_in(const at::Tensor& tensor, bool lift);

// A number computed from others, recorded.
at::Tensor arithmetic(const std::vector<at::Tensor>& numbers, const std::string& expression);

// The program that has been recorded so far, with one number as its output, and its inputs.
struct SoFar {
  Trace trace;
  std::vector<at::Tensor> inputs;
};
SoFar so_far(const at::Tensor& number);
// The program went on as `holds` says.
void note_decision(const at::Tensor& number, bool holds);

// Such a number where C++ asks for a Scalar. Whoever asks for its value is refused; `reader` is the
// operator that read it.
c10::Scalar symbolic(const at::Tensor& number, const std::string& reader);

// The value of the trace behind an argument that is such a Scalar.
bool is_symbolic(const c10::IValue& value);
ValueId number_behind(const c10::IValue& value);

// A value or list of them without symbolic Scalars: `hint` stands for each.
c10::IValue with_hints(const c10::IValue& value, double hint);

}  // namespace fulgurite
