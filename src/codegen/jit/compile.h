// C++ text made callable machine code, within this process.
//
//   KernelPointer kernel = compile_kernel(text, "fusion0");
//   if (!kernel) ...                          // no compiler here: run the ATen operators instead
//   kernel->function<void(void* const*, const int64_t*)>()(pointers, sizes);
//
// What the text may be: C++20 for clang without headers (no #include), defining `symbol` with
// extern "C". It may use clang's builtins and vector extensions (vectors of up to
// `target.vector_bytes`, say `__attribute__((vector_size(64)))`; a wider one is split), and call
// the functions of outside_functions.h, which it declares itself. There are no exceptions, no RTTI,
// no constructors or destructors of globals, no thread-local data.
//
// How it is compiled: only what is marked always_inline is inlined, and loops are neither
// vectorised nor unrolled: the text is the code. Signed integers wrap; a buffer may be read as
// several types (no strict aliasing); floating point is IEEE throughout, and a product and a sum
// become one fused operation only where the text asks for it (`__builtin_elementwise_fma`,
// `#pragma STDC FP_CONTRACT ON`). Errors of vectorised code past the end of a buffer are the
// text's.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "codegen/jit/cpu_target.h"
#include "codegen/jit/object_loader.h"

namespace fulgurite {

// Milliseconds; zero for a stage that did not run.
struct CompileTimes {
  double cache_read = 0, plugin_load = 0, set_up = 0, front_end = 0, passes = 0, machine_code = 0,
         cache_write = 0, load = 0;

  double total() const {
    return cache_read + plugin_load + set_up + front_end + passes + machine_code + cache_write +
           load;
  }
};

// Machine code, for as long as the kernel lives.
struct Kernel {
  std::string symbol;
  std::string text;
  CpuTarget target;
  LoadedObject object;
  void* address = nullptr;
  size_t object_bytes = 0;  // of the file as compiled
  bool from_disk = false;   // found in the cache of an earlier compilation
  CompileTimes times;

  template <class Signature>
  Signature* function() const {
    return reinterpret_cast<Signature*>(address);
  }
};

using KernelPointer = std::shared_ptr<const Kernel>;

// The kernel of this text, from memory, from disk or compiled now, in that order; equal requests of
// several threads at once are compiled once. For any thread.
//
// Null where there is no compiler, and `missing_compiler` says why; with FULGURITE_JIT=require that
// is a UserError. A UserError too: this processor cannot run code for `target`. A text that does
// not compile is an InternalError with clang's messages and the lines around the first error.
KernelPointer compile_kernel(std::string_view text, const std::string& symbol,
                             const CpuTarget& target = default_target());

// What clang makes of the text as assembly, for people. Throws as above; a missing compiler is a
// UserError always. `target` may be one that this processor cannot run.
std::string assembly(std::string_view text, const CpuTarget& target = default_target());
inline std::string assembly(const Kernel& kernel) { return assembly(kernel.text, kernel.target); }

// Why there is no compiler; empty while none is known to be missing. Does not load it. With
// FULGURITE_JIT=off that is the reason, with FULGURITE_JIT=require a missing one is a UserError.
std::string missing_compiler();

// The warning that there is no compiler, with the reason and what to do: for the caller that first
// asks after one was missed, and empty for all others, and with FULGURITE_JIT=off.
std::string missing_compiler_warning();

}  // namespace fulgurite
