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

// The vectors of a text: the kernel goes forward by `lanes` elements at a time.
struct CpuVectors {
  int lanes = 0;
  int lane_bytes = 0;     // of the type computed in most: a full vector of the machine holds
                          // as many, or a part of them
  int machine_bytes = 0;  // 64 for AVX-512, 32 for AVX2
  bool split = false;     // lanes are in another order than memory, see prelude.h

  int bytes() const { return lanes * lane_bytes; }
  int stored_bytes(c10::ScalarType dtype) const {
    return lanes * static_cast<int>(c10::elementSize(dtype));
  }
  // Past the caches: whole vectors of the machine.
  bool can_stream(c10::ScalarType dtype) const {
    return dtype == c10::ScalarType::Float ||
           (dtype == c10::ScalarType::BFloat16 && stored_bytes(dtype) == machine_bytes);
  }
  int sixteens() const { return machine_bytes == 64 && lane_bytes == 4 ? lanes / 16 : 0; }
};

// `side_by_side`: full vectors of the machine to one of the text.
CpuVectors vectors_of(const LoopProgram& program, int machine_bytes, int side_by_side = 1);

// Whole: what it computes, the number of lanes, the kernel's arguments, the prelude, `code`.
std::string text_of(const LoopProgram& program, const CpuVectors& vectors, const Prelude& prelude,
                    const std::string& code);

// Adds the vector type of a dtype (of memory, or of statements) with its functions.
void use_type(Prelude& prelude, c10::ScalarType dtype);

// Adds the choice between two values by a mask; the function's name.
std::string use_select(Prelude& prelude, c10::ScalarType dtype);

// Adds what converts between two dtypes of statements; the function's name.
std::string use_conversion(Prelude& prelude, c10::ScalarType from, c10::ScalarType to);

}  // namespace fulgurite
