// How much memory this process may use.
#pragma once

#include <cstdint>
#include <string>

namespace fulgurite {

// The least of what the machine has and of the limits of the control groups, of version 1 or 2,
// that this process is in, in bytes. `root` is where /proc and /sys are found, for tests.
int64_t memory_limit(const std::string& root = "");

}  // namespace fulgurite
