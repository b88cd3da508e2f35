#include "codegen/jit/kernel_compiler.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>

#include "base/error.h"
#include "codegen/jit/compile_error.h"
#include "codegen/jit/fork_gate.h"

namespace fulgurite {
namespace {

constexpr size_t kKernelsInMemory = 4096;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

JitMode mode_named(const std::string& name) {
  if (name.empty() || name == "auto") return JitMode::kAutomatic;
  if (name == "require") return JitMode::kRequire;
  if (name == "off") return JitMode::kOff;
  user_error("FULGURITE_JIT is '{}'; expected auto, require or off", name);
}

class Stopwatch {
 public:
  explicit Stopwatch(double& milliseconds) : milliseconds_(milliseconds) {}
  ~Stopwatch() {
    milliseconds_ =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
            .count();
  }

 private:
  double& milliseconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct ResultOfClang {
  const FulguriteClang& clang;
  FulguriteClangResult result{};
  ~ResultOfClang() { clang.release(&result); }
};

// Throws InternalError where the text does not compile.
std::string run_clang(const FulguriteClang& clang, std::string_view text, const CpuTarget& target,
                      FulguriteClangOutput output, CompileTimes& times) {
  FulguriteClangRequest request{};
  request.text = text.data();
  request.text_size = text.size();
  request.file_name = kKernelFileName;
  request.cpu = target.llvm_cpu.empty() ? nullptr : target.llvm_cpu.c_str();
  request.vector_bits = 8 * target.vector_bytes;
  request.output = output;
  ResultOfClang of{clang};
  const FulguriteClangResult& result = of.result;
  if (clang.compile(&request, &of.result) != 0)
    throw InternalError(describe_compile_error(text, {result.messages.data, result.messages.size}));
  times.set_up = result.set_up_ms;
  times.front_end = result.front_end_ms;
  times.passes = result.passes_ms;
  times.machine_code = result.machine_code_ms;
  return {result.output.data, result.output.size};
}

// Whatever the object depends on; the plugin's build id stands for the compiler and its passes.
std::string cache_key(const std::string& build_id, std::string_view text, const CpuTarget& target) {
  constexpr int kFormat = 1;
  return fmt::format("{}\n{}\n{}\n{} {} {}\n{}", kFormat, build_id, cpu_identity(), target.name,
                     target.llvm_cpu, target.vector_bytes, text);
}

void load_into(Kernel& kernel, const std::string& object) {
  const Stopwatch load(kernel.times.load);
  kernel.object = load_object(object);
  kernel.object_bytes = object.size();
  kernel.address = kernel.object.find(kernel.symbol);
  require(kernel.address, "a kernel defines no extern \"C\" function {}", kernel.symbol);
}

}  // namespace

JitSettings jit_settings_from_environment() {
  return {mode_named(environment("FULGURITE_JIT")), environment("FULGURITE_CLANG_PLUGIN"),
          cache_settings_from_environment()};
}

KernelCompiler::KernelCompiler(JitSettings settings)
    : settings_(std::move(settings)), in_memory_(kKernelsInMemory) {}

KernelPointer KernelCompiler::find_in_memory(uint64_t hash, std::string_view text,
                                             const std::string& symbol, const CpuTarget& target) {
  return in_memory_.find(hash, [&](const Kernel& k) {
    return k.symbol == symbol && k.target == target && k.text == text;
  });
}

KernelPointer KernelCompiler::compile(std::string_view text, const std::string& symbol,
                                      const CpuTarget& target) {
  if (const std::string lacking = lacking_extensions(target); !lacking.empty())
    user_error("this processor cannot run kernels for {}: it lacks {}", target.name, lacking);
  if (settings_.mode == JitMode::kOff) return nullptr;

  const NoFork whole;
  const std::string key = fmt::format("{}\n{}\n{}", target.name, symbol, text);
  const uint64_t hash = std::hash<std::string>()(key);
  std::promise<KernelPointer> promise;
  {
    std::unique_lock lock(mutex_);
    if (KernelPointer found = find_in_memory(hash, text, symbol, target)) return found;
    if (auto running = running_.find(key); running != running_.end()) {
      const std::shared_future<KernelPointer> result = running->second;
      lock.unlock();
      return result.get();
    }
    running_.emplace(key, promise.get_future().share());
  }
  try {
    KernelPointer kernel = build(text, symbol, target);
    {
      std::lock_guard lock(mutex_);
      if (kernel) in_memory_.add(hash, kernel);
      running_.erase(key);
    }
    promise.set_value(kernel);
    return kernel;
  } catch (...) {
    {
      std::lock_guard lock(mutex_);
      running_.erase(key);
    }
    promise.set_exception(std::current_exception());
    throw;
  }
}

KernelPointer KernelCompiler::build(std::string_view text, const std::string& symbol,
                                    const CpuTarget& target) {
  auto kernel = std::make_shared<Kernel>();
  kernel->symbol = symbol;
  kernel->text = text;
  kernel->target = target;
  const std::string build_id = plugin_build_id();
  const std::string key = cache_key(build_id, text, target);
  if (!build_id.empty() && take_from_disk(key, *kernel)) return kernel;

  const FulguriteClang* compiler = clang(kernel->times);
  if (!compiler) {
    check_required();
    return nullptr;
  }
  const std::string object =
      run_clang(*compiler, text, target, FULGURITE_CLANG_OBJECT, kernel->times);
  load_into(*kernel, object);
  {
    const Stopwatch write(kernel->times.cache_write);
    disk().store(key, object);
  }
  return kernel;
}

bool KernelCompiler::take_from_disk(const std::string& key, Kernel& kernel) {
  std::optional<std::string> object;
  {
    const Stopwatch read(kernel.times.cache_read);
    object = disk().find(key);
  }
  if (!object) return false;
  try {
    load_into(kernel, *object);
  } catch (const InternalError&) {
    return false;  // compiled, and stored anew
  }
  return kernel.from_disk = true;
}

const ObjectCache& KernelCompiler::disk() {
  std::lock_guard lock(mutex_);
  if (!disk_) disk_.emplace(settings_.cache);
  return *disk_;
}

std::string KernelCompiler::plugin_build_id() {
  std::lock_guard lock(mutex_);
  return plugin_file().build_id;
}

const PluginFile& KernelCompiler::plugin_file() {
  if (!file_) file_ = find_plugin(settings_.plugin);
  return *file_;
}

const FulguriteClang* KernelCompiler::clang(CompileTimes& times) {
  std::lock_guard lock(mutex_);
  if (library_.clang || !library_.failure.empty() || !plugin_file().missing.empty())
    return library_.clang;
  library_ = load_plugin(plugin_file().path);
  times.plugin_load = library_.load_ms;
  return library_.clang;
}

std::string KernelCompiler::assembly(std::string_view text, const CpuTarget& target) {
  const NoFork whole;
  CompileTimes times;
  const FulguriteClang* compiler = clang(times);
  if (!compiler) user_error("assembly is written by the kernel compiler: {}", missing());
  return run_clang(*compiler, text, target, FULGURITE_CLANG_ASSEMBLY, times);
}

std::string KernelCompiler::missing() {
  if (settings_.mode == JitMode::kOff) return "FULGURITE_JIT=off";
  std::lock_guard lock(mutex_);
  return library_.failure.empty() ? plugin_file().missing : library_.failure;
}

void KernelCompiler::check_required() {
  if (settings_.mode != JitMode::kRequire) return;
  if (const std::string reason = missing(); !reason.empty())
    user_error("FULGURITE_JIT=require, but there is no kernel compiler: {}", reason);
}

std::string KernelCompiler::missing_warning() {
  const std::string reason = missing();
  if (reason.empty() || settings_.mode != JitMode::kAutomatic) return "";
  std::lock_guard lock(mutex_);
  if (std::exchange(warned_, true)) return "";
  return fmt::format(
      "fulgurite: no kernel compiler, so that every call runs as ATen operators one by one, which "
      "is "
      "correct but slower: {}. Install the package fulgurite-clang, or set FULGURITE_JIT=off to "
      "silence this, FULGURITE_JIT=require to make it an error.",
      reason);
}

void KernelCompiler::clear_memory() {
  std::lock_guard lock(mutex_);
  in_memory_.clear();
}

// A fork must not find it half made.
KernelCompiler& kernel_compiler() {
  static std::atomic<KernelCompiler*> ready{nullptr};
  if (KernelCompiler* compiler = ready.load(std::memory_order_acquire)) return *compiler;
  const NoFork whole;
  static auto* compiler = new KernelCompiler(jit_settings_from_environment());
  ready.store(compiler, std::memory_order_release);
  return *compiler;
}

KernelPointer compile_kernel(std::string_view text, const std::string& symbol,
                             const CpuTarget& target) {
  return kernel_compiler().compile(text, symbol, target);
}

std::string assembly(std::string_view text, const CpuTarget& target) {
  return kernel_compiler().assembly(text, target);
}

std::string missing_compiler() {
  kernel_compiler().check_required();
  return kernel_compiler().missing();
}

std::string missing_compiler_warning() { return kernel_compiler().missing_warning(); }

}  // namespace fulgurite
