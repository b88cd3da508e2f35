// What is said of a text that does not compile.
#pragma once

#include <string>
#include <string_view>

namespace fulgurite {

// How clang's messages call the text of a kernel.
inline constexpr const char* kKernelFileName = "kernel.cpp";

// clang's messages and the numbered lines of `text` around the first error.
std::string describe_compile_error(std::string_view text, std::string_view messages);

}  // namespace fulgurite
