#include <dlfcn.h>
#include <doctest/doctest.h>
#include <math.h>

#include <thread>
#include <vector>

#include "base/error.h"
#include "jit_harness.h"

namespace fulgurite {
namespace {

constexpr const char* kAdd = R"(
typedef float Vector __attribute__((vector_size(64), aligned(4)));
extern "C" void add(const float* a, const float* b, float* out, long n) {
  long i = 0;
  for (; i + 16 <= n; i += 16)
    *(Vector*)(out + i) = *(const Vector*)(a + i) + *(const Vector*)(b + i);
  for (; i < n; ++i) out[i] = a[i] + b[i];
}
)";

using Add = void(const float*, const float*, float*, long);

bool adds(const KernelPointer& kernel) {
  if (!kernel) return false;
  std::vector<float> a(37), b(37), out(37);
  for (int i = 0; i < 37; ++i) a[i] = 0.5f * i, b[i] = 100.f - i;
  kernel->function<Add>()(a.data(), b.data(), out.data(), 37);
  for (int i = 0; i < 37; ++i)
    if (out[i] != a[i] + b[i]) return false;
  return true;
}

// A text of its own for each number.
std::string numbered(int number) {
  return "extern \"C\" int number() { return " + std::to_string(number) + "; }";
}

bool compiles_number(KernelCompiler& compiler, int number) {
  const KernelPointer kernel = compiler.compile(numbered(number), "number", cpu_target("host"));
  return kernel && kernel->function<int()>()() == number;
}

template <class Error, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::filesystem::path path_of_libm() {
  Dl_info info;
  dladdr(reinterpret_cast<void*>(static_cast<double (*)(double)>(&tgamma)), &info);
  return info.dli_fname;
}

TEST_CASE("a text is compiled, loaded and runs" * doctest::skip(no_plugin())) {
  KernelCompiler compiler(settings_with());
  const KernelPointer kernel = compiler.compile(kAdd, "add", cpu_target("host"));
  REQUIRE(kernel);
  CHECK(adds(kernel));
  CHECK_FALSE(kernel->from_disk);
  CHECK(kernel->times.plugin_load > 0);
  CHECK(kernel->times.machine_code > 0);
  CHECK(kernel->times.total() > kernel->times.machine_code);
  CHECK(kernel->object_bytes > 0);
  CHECK(compiler.missing() == "");
}

TEST_CASE("each target has its own registers" * doctest::skip(no_plugin())) {
  KernelCompiler compiler(settings_with());
  for (const auto& [name, has, lacks] :
       {std::tuple{"avx512", "%zmm", "%mmx"}, {"avx2", "%ymm", "%zmm"}, {"sse4", "%xmm", "%ymm"}}) {
    const CpuTarget target = cpu_target(name);
    const std::string assembly = compiler.assembly(kAdd, target);
    CHECK(contains(assembly, has));
    CHECK_FALSE(contains(assembly, lacks));
    if (lacking_extensions(target).empty()) CHECK(adds(compiler.compile(kAdd, "add", target)));
  }
  const std::string host = compiler.assembly(kAdd, cpu_target("host"));
  CHECK(contains(host, "%zmm") == (cpu_target("host").vector_bytes == 64));
}

TEST_CASE("a target that this processor lacks is refused") {
  KernelCompiler compiler(settings_with());
  CpuTarget target = cpu_target("sse4");
  target.needs += " avx4096";
  CHECK(message_of<UserError>([&] { compiler.compile(kAdd, "add", target); }) ==
        "this processor cannot run kernels for sse4: it lacks avx4096");
  CHECK(contains(message_of<UserError>([] { cpu_target("avx3"); }), "host, avx512, avx2 or sse4"));
}

TEST_CASE("floating point is IEEE, and integers wrap" * doctest::skip(no_plugin())) {
  KernelCompiler compiler(settings_with());
  const auto kernel = [&](const char* text, const char* symbol) {
    return compiler.compile(text, symbol, cpu_target("host"));
  };
  constexpr float kA = 1 + 0x1p-12f, kC = -1 - 0x1p-11f;
  const auto separate =
      kernel("extern \"C\" float f(float a, float b, float c) { return a * b + c; }", "f");
  const auto fused = kernel(
      "#pragma STDC FP_CONTRACT ON\n"
      "extern \"C\" float f(float a, float b, float c) { return a * b + c; }",
      "f");
  CHECK(separate->function<float(float, float, float)>()(kA, kA, kC) == 0);
  if (__builtin_cpu_supports("fma"))
    CHECK(fused->function<float(float, float, float)>()(kA, kA, kC) == 0x1p-24f);
  const auto sum = kernel("extern \"C\" float f(float a, float b) { return (a + b) - b; }", "f");
  CHECK(sum->function<float(float, float)>()(1, 0x1p30f) == 0);
  const auto nan = kernel("extern \"C\" int f(float a) { return a != a; }", "f");
  CHECK(nan->function<int(float)>()(NAN) == 1);
  const auto wraps = kernel("extern \"C\" int f(int a) { return a + 1 < a; }", "f");
  CHECK(wraps->function<int(int)>()(INT32_MAX) == 1);
  const auto aliases =
      kernel("extern \"C\" int f(float* a, int* b) { *b = 1; *a = 2.f; return *b; }", "f");
  int32_t shared = 0;
  aliases->function<int(void*, void*)>()(&shared, &shared);
  CHECK(aliases->function<int(void*, void*)>()(&shared, &shared) == 0x40000000);
}

TEST_CASE("a text that does not compile is an error that shows it" * doctest::skip(no_plugin())) {
  KernelCompiler compiler(settings_with());
  const std::string text = "int first;\nint second;\nint third = ;\nint fourth;\n";
  for (int again = 0; again < 2; ++again) {
    const std::string message =
        message_of<InternalError>([&] { compiler.compile(text, "kernel", cpu_target("host")); });
    CHECK(contains(message, "error: expected expression"));
    CHECK(contains(message, ">     3 | int third = ;"));
    CHECK(contains(message, "      1 | int first;"));
    CHECK(contains(message, "      4 | int fourth;"));
  }
  CHECK(contains(message_of<InternalError>(
                     [&] { compiler.compile("#include <cmath>\n", "kernel", cpu_target("host")); }),
                 "file not found"));
  CHECK(contains(
      message_of<InternalError>([&] { compiler.compile(kAdd, "subtract", cpu_target("host")); }),
      "no extern \"C\" function subtract"));
}

TEST_CASE("without the plugin there is no kernel but a reason") {
  KernelCompiler absent(settings_with("", "/nowhere/plugin.so"));
  CHECK(absent.compile(kAdd, "add", cpu_target("host")) == nullptr);
  CHECK(absent.missing() == "/nowhere/plugin.so: No such file or directory");
  CHECK_THROWS_AS(absent.assembly(kAdd, cpu_target("host")), UserError);
  const std::string warning = absent.missing_warning();
  CHECK(contains(warning, "/nowhere/plugin.so: No such file or directory"));
  CHECK(contains(warning, "fulgurite-clang"));
  CHECK(absent.missing_warning() == "");

  const TemporaryFolder temporary;
  write_file(temporary.path() / "plugin.so", "no library");
  KernelCompiler text(settings_with("", temporary.path() / "plugin.so"));
  CHECK(text.compile(kAdd, "add", cpu_target("host")) == nullptr);
  CHECK(contains(text.missing(), "is no library with a build id"));

  KernelCompiler another(settings_with("", path_of_libm()));
  CHECK(another.compile(kAdd, "add", cpu_target("host")) == nullptr);
  CHECK(contains(another.missing(), "undefined symbol: fulgurite_clang_v1"));
  CHECK(another.compile(kAdd, "add", cpu_target("host")) == nullptr);
}

TEST_CASE("the plugin of the package comes first, and a name before it" *
          doctest::skip(no_plugin())) {
  const PluginFile usual = find_plugin("");
  const std::string another = path_of_libm();
  set_packaged_plugin(another);
  CHECK(find_plugin("").path == another);
  CHECK(find_plugin("").build_id != usual.build_id);
  CHECK(find_plugin(usual.path).build_id == usual.build_id);
  set_packaged_plugin("/nowhere/libfulgurite_clang.so");
  CHECK(find_plugin("").path == usual.path);
  set_packaged_plugin("");
  CHECK(find_plugin("").path == usual.path);
  CHECK(usual.build_id.size() == 40);
}

TEST_CASE("FULGURITE_JIT makes a missing compiler an error, or silent") {
  KernelCompiler required({JitMode::kRequire, "/nowhere/plugin.so", {}});
  CHECK(contains(message_of<UserError>([&] { required.compile(kAdd, "add", cpu_target("host")); }),
                 "FULGURITE_JIT=require, but there is no kernel compiler: /nowhere/plugin.so"));
  CHECK(required.missing_warning() == "");
  KernelCompiler off({JitMode::kOff, "", {}});
  CHECK(off.compile(kAdd, "add", cpu_target("host")) == nullptr);
  CHECK(off.missing() == "FULGURITE_JIT=off");
  CHECK(off.missing_warning() == "");

  setenv("FULGURITE_JIT", "sometimes", 1);
  CHECK(contains(message_of<UserError>([] { jit_settings_from_environment(); }),
                 "expected auto, require or off"));
  setenv("FULGURITE_JIT", "require", 1);
  CHECK(jit_settings_from_environment().mode == JitMode::kRequire);
  unsetenv("FULGURITE_JIT");
  CHECK(jit_settings_from_environment().mode == JitMode::kAutomatic);
}

TEST_CASE("equal requests have one kernel" * doctest::skip(no_plugin())) {
  KernelCompiler compiler(settings_with());
  const KernelPointer kernel = compiler.compile(kAdd, "add", cpu_target("host"));
  CHECK(compiler.compile(kAdd, "add", cpu_target("host")) == kernel);
  CHECK(compiler.compile(fmt::format("{} ", kAdd), "add", cpu_target("host")) != kernel);
  CHECK(compiler.compile(kAdd, "add", cpu_target("sse4")) != kernel);
  compiler.clear_memory();
  CHECK(compiler.compile(kAdd, "add", cpu_target("host")) != kernel);
  CHECK(adds(kernel));
}

TEST_CASE("threads that ask for one kernel at once share it" * doctest::skip(no_plugin())) {
  KernelCompiler compiler(settings_with());
  std::vector<KernelPointer> kernels(8);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      kernels[t] = compiler.compile(kAdd, "add", cpu_target("host"));
      try {
        compiler.compile("error;", "add", cpu_target("host"));
      } catch (const InternalError&) {
        ++failures;
      }
      if (!compiles_number(compiler, t)) failures += 100;
    });
  for (std::thread& thread : threads) thread.join();
  for (const KernelPointer& kernel : kernels) CHECK(kernel == kernels.front());
  CHECK(adds(kernels.front()));
  CHECK(failures == 8);
}

TEST_CASE("a kernel on disk needs no compiler" * doctest::skip(no_plugin())) {
  const TemporaryFolder folder;
  KernelCompiler first(settings_with(folder.path()));
  CHECK_FALSE(first.compile(kAdd, "add", cpu_target("host"))->from_disk);
  KernelCompiler second(settings_with(folder.path()));
  const KernelPointer kernel = second.compile(kAdd, "add", cpu_target("host"));
  CHECK(adds(kernel));
  CHECK(kernel->from_disk);
  CHECK(kernel->times.plugin_load == 0);
  CHECK(kernel->times.machine_code == 0);
  CHECK_FALSE(second.compile(kAdd, "add", cpu_target("sse4"))->from_disk);
  CHECK(contains(second.assembly(kernel->text, kernel->target), "add:"));
}

TEST_CASE("a sound entry that does not load is compiled anew" * doctest::skip(no_plugin())) {
  const TemporaryFolder folder;
  KernelCompiler(settings_with(folder.path())).compile(kAdd, "add", cpu_target("host"));
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    if (entry.is_regular_file()) file = entry.path();
  const std::string entry = read_file(file);
  const std::string key = entry.substr(40, entry.find("\x7f"
                                                      "ELF") -
                                               40);
  REQUIRE(ObjectCache({folder.path()}).store(key, "no object"));
  for (const bool from_disk : {false, true}) {
    KernelCompiler compiler(settings_with(folder.path()));
    const KernelPointer kernel = compiler.compile(kAdd, "add", cpu_target("host"));
    CHECK(kernel->from_disk == from_disk);
    CHECK(adds(kernel));
  }
}

TEST_CASE("a forked child compiles" * doctest::skip(no_plugin())) {
  KernelCompiler compiler(settings_with());
  CHECK(holds_in_child([&] { return compiles_number(compiler, 1); }));
  REQUIRE(compiles_number(compiler, 2));
  CHECK(
      holds_in_child([&] { return compiles_number(compiler, 2) && compiles_number(compiler, 3); }));
}

// Nobody holds AddressSanitizer's allocator while a fork copies it: the child of a program with
// threads that allocate may wait for a lock for ever.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kAllocatorForks = false;
#else
constexpr bool kAllocatorForks = true;
#endif

TEST_CASE("a child forked while others compile compiles" *
          doctest::skip(no_plugin() || !kAllocatorForks)) {
  KernelCompiler compiler(settings_with());
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) compiles_number(compiler, 1000 * (t + 1) + i);
    });
  int failed = 0;
  for (int i = 0; i < 10; ++i)
    failed += !holds_in_child([&] { return compiles_number(compiler, 100'000); });
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
}

}  // namespace
}  // namespace fulgurite
