// The functions outside of a kernel that its code may call: memcpy, memmove, memset,
// aligned_alloc, free, and libm's common functions in double and float.
#pragma once

#include <string_view>

namespace fulgurite {

// Null for any other name.
void* outside_function(std::string_view name);

}  // namespace fulgurite
