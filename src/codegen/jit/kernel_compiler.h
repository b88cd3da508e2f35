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
#include "codegen/jit/object_cache.h"
#include "codegen/jit/plugin_library.h"

namespace fulgurite {

enum class JitMode { kAutomatic, kRequire, kOff };

struct JitSettings {
  JitMode mode = JitMode::kAutomatic;
  std::string plugin;  // path; empty: looked for in the usual places
  CacheSettings cache;
};

// Of FULGURITE_JIT (auto, require, off), FULGURITE_CLANG_PLUGIN, FULGURITE_CACHE_DIR and
// FULGURITE_CACHE_MB. Throws UserError for another
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
  // Throws UserError where a missing compiler is an error.
  void check_required();

  // Forgets the kernels in memory; those in use live on.
  void clear_memory();

 private:
  KernelPointer find_in_memory(uint64_t hash, std::string_view text, const std::string& symbol,
                               const CpuTarget& target);
  KernelPointer build(std::string_view text, const std::string& symbol, const CpuTarget& target);
  // Whether the kernel was in the cache, whole and sound.
  bool take_from_disk(const std::string& key, Kernel& kernel);
  // Loads the plugin; null where that fails.
  const FulguriteClang* clang(CompileTimes& times);
  const ObjectCache& disk();
  std::string plugin_build_id();
  const PluginFile& plugin_file();  // with the mutex held

  const JitSettings settings_;
  std::mutex mutex_;  // of all that follows
  LruTable<const Kernel> in_memory_;
  std::unordered_map<std::string, std::shared_future<KernelPointer>> running_;
  std::optional<PluginFile> file_;
  std::optional<ObjectCache> disk_;
  PluginLibrary library_;
  bool warned_ = false;
};

// That of this process, with the settings of the environment.
KernelCompiler& kernel_compiler();

}  // namespace fulgurite
