#include "codegen/jit/cpu_target.h"

#include <cpuid.h>

#include <array>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"

namespace fulgurite {
namespace {

struct Level {
  const char* name;
  const char* llvm_cpu;
  int vector_bytes;
};

constexpr std::array kLevels = {Level{"avx512", "x86-64-v4", 64}, Level{"avx2", "x86-64-v3", 32},
                                Level{"sse4", "x86-64-v2", 16}};

// Of the levels' extensions those that no processor has without the others.
std::string lacking(int vector_bytes) {
  __builtin_cpu_init();
  std::string names;
  const auto need = [&](bool present, const char* name) {
    if (!present) names += (names.empty() ? "" : " ") + std::string(name);
  };
  need(__builtin_cpu_supports("sse4.2"), "sse4.2");
  need(__builtin_cpu_supports("popcnt"), "popcnt");
  if (vector_bytes >= 32) {
    need(__builtin_cpu_supports("avx2"), "avx2");
    need(__builtin_cpu_supports("fma"), "fma");
    need(__builtin_cpu_supports("bmi"), "bmi");
    need(__builtin_cpu_supports("bmi2"), "bmi2");
    need(__builtin_cpu_supports("f16c"), "f16c");
    need(__builtin_cpu_supports("lzcnt"), "lzcnt");
  }
  if (vector_bytes >= 64) {
    need(__builtin_cpu_supports("avx512f"), "avx512f");
    need(__builtin_cpu_supports("avx512bw"), "avx512bw");
    need(__builtin_cpu_supports("avx512cd"), "avx512cd");
    need(__builtin_cpu_supports("avx512dq"), "avx512dq");
    need(__builtin_cpu_supports("avx512vl"), "avx512vl");
  }
  return names;
}

int widest_vector() {
  for (const Level& level : kLevels)
    if (lacking(level.vector_bytes).empty()) return level.vector_bytes;
  return kLevels.back().vector_bytes;
}

std::string describe_leaf(unsigned leaf, unsigned subleaf, bool with_ebx) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __get_cpuid_count(leaf, subleaf, &a, &b, &c, &d);
  return fmt::format("{:x}.{:x}:{:x},{:x},{:x},{:x};", leaf, subleaf, a, with_ebx ? b : 0, c, d);
}

uint32_t saved_registers() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

}  // namespace

CpuTarget cpu_target(std::string_view name) {
  if (name == "host") return {"host", "", widest_vector()};
  for (const Level& level : kLevels)
    if (name == level.name) return {level.name, level.llvm_cpu, level.vector_bytes};
  user_error("no processor '{}'; FULGURITE_CPU may be host, avx512, avx2 or sse4", name);
}

const CpuTarget& default_target() {
  static const CpuTarget target = [] {
    const char* name = std::getenv("FULGURITE_CPU");
    return cpu_target(name && *name ? name : "host");
  }();
  return target;
}

std::string lacking_extensions(const CpuTarget& target) {
  return target.llvm_cpu.empty() ? "" : lacking(target.vector_bytes);
}

const std::string& cpu_identity() {
  // In leaf 1, ebx has the number of the core that this happens to run on.
  static const std::string identity = describe_leaf(0, 0, true) + describe_leaf(1, 0, false) +
                                      describe_leaf(7, 0, true) + describe_leaf(7, 1, true) +
                                      describe_leaf(0x80000001, 0, true) +
                                      fmt::format("xcr0:{:x}", saved_registers());
  return identity;
}

}  // namespace fulgurite
