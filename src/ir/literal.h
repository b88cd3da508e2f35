// The constants of a trace as Python text.
#pragma once

#include <string>
#include <string_view>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

namespace fulgurite {

// The shortest text that Python reads back as the same float: 0.1, 1e-05, float("-inf").
void append_float(std::string& out, double value);

// Quoted and escaped.
void append_string(std::string& out, std::string_view text);

// `type` is the schema's Argument::real_type(): it says whether an integer stands for a dtype, a
// layout or a memory format. A constant that Python has no literal for is written as None, and
// what it is comes back; "" otherwise.
std::string append_literal(std::string& out, const c10::IValue& value, const c10::Type& type);

// The same text and more: equal types, bits and elements; every NaN equals every NaN, and the
// default generator equals None.
bool same_constant(const c10::IValue& a, const c10::IValue& b);

// The number in a 0-dim tensor that stands for a Python number, as an int, float, bool or complex.
c10::IValue wrapped_number(const at::Tensor& tensor);

}  // namespace fulgurite
