// The compiler behind compile.h with its settings explicit.
#pragma once

#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/lru_table.h"
#include "codegen/jit/compile.h"
#include "codegen/jit/plugin_library.h"

namespace fulgurite {

enum class JitMode { kAutomatic, kRequire, kOff };

struct JitSettings {
  JitMode mode = JitMode::kAutomatic;
  std::string plugin;  // path; empty: looked for in the usual places
};

// Of FULGURITE_JIT (auto, require, off) and FULGURITE_CLANG_PLUGIN. Throws UserError for another
// mode.
JitSettings jit_settings_from_environment();

class KernelCompiler {
 public:
  explicit KernelCompiler(JitSettings settings);

  // As the functions of compile.h.
  KernelPointer compile(std::string_view text, const std::string& symbol, const CpuTarget& target);
  std::string assembly(std::string_view text, const CpuTarget& target);
  std::string missing();
  std::string missing_warning();

  // Forgets the kernels in memory; those in use live on.
  void clear_memory();

 private:
  struct Code {
    std::string object;
    bool from_disk = false;
  };

  KernelPointer find_in_memory(uint64_t hash, std::string_view text, const std::string& symbol,
                               const CpuTarget& target);
  KernelPointer build(std::string_view text, const std::string& symbol, const CpuTarget& target);
  const FulguriteClang* clang(CompileTimes& times);
  const PluginFile& plugin_file();

  const JitSettings settings_;
  std::mutex mutex_;  // of all that follows
  LruTable<const Kernel> in_memory_;
  std::unordered_map<std::string, std::shared_future<KernelPointer>> running_;
  std::optional<PluginFile> file_;
  PluginLibrary library_;
  std::string missing_;
  bool warned_ = false;
};

// That of this process, with the settings of the environment.
KernelCompiler& kernel_compiler();

}  // namespace fulgurite
