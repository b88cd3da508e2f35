// Functions of torch that take a Python number for a Tensor argument, by the name in Python without
// a trailing underscore. Torch keeps the same list in its argument parser.
#pragma once

#include <array>

namespace fulgurite {

inline constexpr std::array kNumbersAsTensors{
    "add", "sub",    "subtract",    "mul",          "multiply",
    "div", "divide", "true_divide", "floor_divide", "copy",
};

}  // namespace fulgurite
