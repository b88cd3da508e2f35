// How dtypes are spelled in a kernel's text.
#pragma once

#include <string>
#include <string_view>

#include <c10/core/ScalarType.h>

#include "codegen/loops/loop_program.h"
#include "codegen/loops/prelude/prelude.h"

namespace fulgurite {

// "f32", "i64", "mask" for bool.
std::string_view vector_name(c10::ScalarType dtype);
// "f32v", "mask".
std::string vector_type(c10::ScalarType dtype);
// Of an element in memory: "float", "bool", "bf16".
std::string_view element_type(c10::ScalarType dtype);

// How many elements the kernel goes forward at a time: a full vector of the type computed in most.
int lanes_of(const LoopProgram& program, int vector_bytes);

// The head of a text: the number of lanes, the kernel's arguments, the type of masks.
std::string head_of_text(int lanes, int vector_bytes);

// Adds the vector type of a dtype (of memory, or of statements) with its functions.
void use_type(Prelude& prelude, c10::ScalarType dtype);

// Adds the choice between two values by a mask; the function's name.
std::string use_select(Prelude& prelude, c10::ScalarType dtype);

// Adds what converts between two dtypes of statements; the function's name.
std::string use_conversion(Prelude& prelude, c10::ScalarType from, c10::ScalarType to);

}  // namespace fulgurite
