#include "codegen/jit/cpu_target.h"

#include <cpuid.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "codegen/jit/fork_gate.h"

namespace fulgurite {
namespace {

struct Level {
  const char* name;
  const char* llvm_cpu;
  int vector_bytes;
  const char* needs;
};

constexpr std::array kLevels = {
    Level{"avx512", "x86-64-v4", 64,
          "sse4.2 popcnt avx2 fma bmi bmi2 f16c lzcnt avx512f avx512bw avx512cd avx512dq avx512vl"},
    Level{"avx2", "x86-64-v3", 32, "sse4.2 popcnt avx2 fma bmi bmi2 f16c lzcnt"},
    Level{"sse4", "x86-64-v2", 16, "sse4.2 popcnt"}};

struct Extension {
  std::string_view name;
  bool present;
};

// False for a name that is not in the list.
bool has_extension(std::string_view name) {
  __builtin_cpu_init();
  const std::array extensions = {
      Extension{"sse4.2", __builtin_cpu_supports("sse4.2") != 0},
      Extension{"popcnt", __builtin_cpu_supports("popcnt") != 0},
      Extension{"avx2", __builtin_cpu_supports("avx2") != 0},
      Extension{"fma", __builtin_cpu_supports("fma") != 0},
      Extension{"bmi", __builtin_cpu_supports("bmi") != 0},
      Extension{"bmi2", __builtin_cpu_supports("bmi2") != 0},
      Extension{"f16c", __builtin_cpu_supports("f16c") != 0},
      Extension{"lzcnt", __builtin_cpu_supports("lzcnt") != 0},
      Extension{"avx512f", __builtin_cpu_supports("avx512f") != 0},
      Extension{"avx512bw", __builtin_cpu_supports("avx512bw") != 0},
      Extension{"avx512cd", __builtin_cpu_supports("avx512cd") != 0},
      Extension{"avx512dq", __builtin_cpu_supports("avx512dq") != 0},
      Extension{"avx512vl", __builtin_cpu_supports("avx512vl") != 0},
  };
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](const Extension& e) { return e.name == name && e.present; });
}

std::string lacking_of(std::string_view needs) {
  std::string lacking;
  while (!needs.empty()) {
    const size_t end = std::min(needs.find(' '), needs.size());
    const std::string_view name = needs.substr(0, end);
    if (!has_extension(name)) lacking.append(lacking.empty() ? "" : " ").append(name);
    needs.remove_prefix(std::min(end + 1, needs.size()));
  }
  return lacking;
}

int widest_vector() {
  for (const Level& level : kLevels)
    if (lacking_of(level.needs).empty()) return level.vector_bytes;
  return kLevels.back().vector_bytes;
}

// Where a processor has no such leaf it answers something else, but always the same. Each question
// costs microseconds under a hypervisor.
std::string describe_leaf(unsigned leaf, unsigned subleaf, bool with_ebx) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __cpuid_count(leaf, subleaf, a, b, c, d);
  return fmt::format("{:x}.{:x}:{:x},{:x},{:x},{:x};", leaf, subleaf, a, with_ebx ? b : 0, c, d);
}

uint32_t saved_registers() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __cpuid(1, a, b, c, d);
  if (!(c & bit_OSXSAVE)) return 0;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

}  // namespace

CpuTarget cpu_target(std::string_view name) {
  if (name == "host") return {"host", "", widest_vector(), ""};
  for (const Level& level : kLevels)
    if (name == level.name) return {level.name, level.llvm_cpu, level.vector_bytes, level.needs};
  user_error("no processor '{}'; FULGURITE_CPU may be host, avx512, avx2 or sse4", name);
}

// A fork must not find it half made.
const CpuTarget& default_target() {
  static std::atomic<const CpuTarget*> ready{nullptr};
  if (const CpuTarget* target = ready.load(std::memory_order_acquire)) return *target;
  const NoFork whole;
  static const CpuTarget target = [] {
    const char* name = std::getenv("FULGURITE_CPU");
    return cpu_target(name && *name ? name : "host");
  }();
  ready.store(&target, std::memory_order_release);
  return target;
}

std::string lacking_extensions(const CpuTarget& target) { return lacking_of(target.needs); }

const std::string& cpu_identity() {
  // In leaf 1, ebx has the number of the core that this happens to run on.
  static const std::string identity = describe_leaf(0, 0, true) + describe_leaf(1, 0, false) +
                                      describe_leaf(7, 0, true) + describe_leaf(7, 1, true) +
                                      describe_leaf(0x80000001, 0, true) +
                                      fmt::format("xcr0:{:x}", saved_registers());
  return identity;
}

}  // namespace fulgurite
