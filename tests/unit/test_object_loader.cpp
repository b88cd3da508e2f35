#include "codegen/jit/object_loader.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <sstream>

#include "base/error.h"
#include "jit_harness.h"

namespace fulgurite {
namespace {

// What the plugin makes of a text.
std::string object_of(std::string_view text) {
  static const PluginLibrary plugin = load_plugin(find_plugin("").path);
  FulguriteClangRequest request{text.data(), text.size(), "test.cpp",
                                nullptr,     256,         FULGURITE_CLANG_OBJECT};
  FulguriteClangResult result;
  const int failed = plugin.clang->compile(&request, &result);
  const std::string object(result.output.data, result.output.size);
  INFO(std::string(result.messages.data, result.messages.size));
  CHECK_FALSE(failed);
  plugin.clang->release(&result);
  return object;
}

template <class Signature>
Signature* function(const LoadedObject& object, std::string_view name) {
  void* address = object.find(name);
  REQUIRE(address);
  return reinterpret_cast<Signature*>(address);
}

std::string refusal(std::string_view text) {
  try {
    load_object(object_of(text));
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

// The permissions of the mapping that has `address`, as /proc/self/maps spells them.
std::string permissions_at(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t first = 0, end = 0;
    char dash = 0;
    std::string permissions;
    std::istringstream(line) >> std::hex >> first >> dash >> end >> permissions;
    const auto wanted = reinterpret_cast<uint64_t>(address);
    if (first <= wanted && wanted < end) return permissions;
  }
  return "";
}

constexpr const char* kEverything = R"(
extern "C" double pow(double, double);
extern "C" float expf(float);
static double twice(double x) { return x + x; }
static double thrice(double x) { return x * 3; }
static double (*const table[])(double) = {twice, thrice};
static double (*volatile chosen)(double) = thrice;
static int calls = 40;
static int zeroed[1000];
static const float constants[] = {0.5f, 1.5f, 2.5f, 3.5f};
extern "C" double call(int i, double x) { return table[i](x); }
extern "C" double call_chosen(double x) { return chosen(x); }
extern "C" int count() { return ++calls + zeroed[calls]++; }
extern "C" double power(double a, double b) { return pow(a, b); }
extern "C" float exponential(float x) { return expf(x); }
extern "C" float constant(unsigned i) { return constants[i & 3]; }
extern "C" int pick(int i) {
  switch (i) {
    case 0: return 11;
    case 1: return calls;
    case 2: return 35;
    case 3: return 17;
    case 4: return zeroed[5];
    case 5: return 8;
  }
  return -1;
}
)";

TEST_CASE("code, constants, data and calls of an object work" * doctest::skip(no_plugin())) {
  const LoadedObject object = load_object(object_of(kEverything));
  CHECK(function<double(int, double)>(object, "call")(0, 4.0) == 8.0);
  CHECK(function<double(int, double)>(object, "call")(1, 4.0) == 12.0);
  CHECK(function<double(double)>(object, "call_chosen")(5.0) == 15.0);
  CHECK(function<int()>(object, "count")() == 41);
  CHECK(function<int()>(object, "count")() == 42);
  CHECK(function<double(double, double)>(object, "power")(1.5, 2.5) == std::pow(1.5, 2.5));
  CHECK(function<float(float)>(object, "exponential")(1.25f) == std::exp(1.25f));
  CHECK(function<float(unsigned)>(object, "constant")(2) == 2.5f);
  CHECK(function<int(int)>(object, "pick")(3) == 17);
  CHECK(function<int(int)>(object, "pick")(5) == 8);
  CHECK(object.find("twice") == nullptr);
  CHECK(object.find("absent") == nullptr);
}

TEST_CASE("no memory of an object is writable and executable" * doctest::skip(no_plugin())) {
  const LoadedObject object = load_object(object_of(R"(
    int written = 1;
    extern const int read_only[100];
    const int read_only[100] = {1, 2, 3};
    extern "C" int run() { return written + read_only[1]; })"));
  CHECK(permissions_at(object.find("run")) == "r-xp");
  CHECK(permissions_at(object.find("written")) == "rw-p");
  CHECK(permissions_at(object.find("read_only")) == "r--p");
}

TEST_CASE("an object's memory goes with it" * doctest::skip(no_plugin())) {
  const std::string bytes = object_of("extern \"C\" int run() { return 1; }");
  void* address = nullptr;
  {
    LoadedObject first = load_object(bytes);
    LoadedObject second = std::move(first);
    address = second.find("run");
    CHECK(first.find("run") == nullptr);
    CHECK(permissions_at(address) == "r-xp");
  }
  CHECK(permissions_at(address) == "");
}

TEST_CASE("what kernels have no use for is refused" * doctest::skip(no_plugin())) {
  CHECK(refusal(
            "extern \"C\" int system(const char*); extern \"C\" int run() { return system(\"\"); }")
            .find("calls system, which is not among the functions") != std::string::npos);
  CHECK(refusal("extern int elsewhere; extern \"C\" int run() { return elsewhere; }")
            .find("calls elsewhere") != std::string::npos);
  CHECK(refusal("volatile int known_late = 3; int made = known_late;").find("constructors") !=
        std::string::npos);
  CHECK(refusal("__attribute__((section(\".ctors\"))) void (*early)() = nullptr;")
            .find("constructors") != std::string::npos);
  CHECK(refusal("thread_local int mine = 3; extern \"C\" int run() { return mine; }")
            .find("thread-local") != std::string::npos);
}

TEST_CASE("what is no object is refused") {
  CHECK_THROWS_AS(load_object(""), InternalError);
  CHECK_THROWS_AS(load_object(std::string(4096, 'x')), InternalError);
  // A program, not an object.
  CHECK_THROWS_AS(load_object(read_file("/proc/self/exe").substr(0, 1 << 20)), InternalError);
}

TEST_CASE("a damaged object is refused or loaded, and nothing else" * doctest::skip(no_plugin())) {
  const std::string whole = object_of(kEverything);
  int refused = 0;
  const auto try_to_load = [&](const std::string& bytes) {
    try {
      load_object(bytes);
    } catch (const InternalError&) {
      ++refused;
    }
  };
  for (size_t size = 0; size < whole.size(); size += 13) try_to_load(whole.substr(0, size));
  CHECK(refused > static_cast<int>(whole.size() / 13 / 2));

  std::mt19937 random(7);
  refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    for (int flips = 0; flips < 4; ++flips)
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    try_to_load(bytes);
  }
  CHECK(refused > 100);
}

}  // namespace
}  // namespace fulgurite
