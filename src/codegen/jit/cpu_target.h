// The processor that a kernel is compiled for.
#pragma once

#include <string>
#include <string_view>

namespace fulgurite {

struct CpuTarget {
  std::string name;      // host, avx512, avx2 or sse4
  std::string llvm_cpu;  // LLVM's name for it; empty for `host`: whatever LLVM finds
  int vector_bytes;      // of its widest registers: 64, 32 or 16
  std::string needs;     // extensions of x86-64, separated by spaces; empty for `host`

  friend bool operator==(const CpuTarget&, const CpuTarget&) = default;
};

// `host` is the very processor that this runs on, with all its extensions; the others are
// x86-64-v4, v3 and v2 and may be compiled for anywhere. Throws UserError for another name.
CpuTarget cpu_target(std::string_view name);

// That of the environment variable FULGURITE_CPU, `host` without it. Throws UserError as above.
const CpuTarget& default_target();

// The extensions that this processor lacks to run code for `target`, separated by spaces; empty
// where it lacks none.
std::string lacking_extensions(const CpuTarget& target);

// What tells this processor from others, as far as code for `host` can depend on it: vendor, model,
// extensions, and which registers the system saves.
const std::string& cpu_identity();

}  // namespace fulgurite
