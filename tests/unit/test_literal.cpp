#include <limits>

#include <doctest/doctest.h>

#include "ir/literal.h"
#include "trace_builder.h"

using namespace fulgurite;

namespace {

std::string float_text(double value) {
  std::string out;
  append_float(out, value);
  return out;
}

std::string text(const c10::IValue& value, const c10::TypePtr& type = c10::AnyType::get()) {
  std::string out;
  append_literal(out, value, *type);
  return out;
}

}  // namespace

TEST_CASE("floats read as Python writes them") {
  const std::pair<double, const char*> cases[] = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.0, "1.0"},
      {-2.5, "-2.5"},
      {0.1, "0.1"},
      {1.0 / 3, "0.3333333333333333"},
      {100.0, "100.0"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {1.5e16, "1.5e+16"},
      {123456789012345680.0, "1.2345678901234568e+17"},
      {9007199254740993.0, "9007199254740992.0"},
      {0.0001, "0.0001"},
      {0.00012, "0.00012"},
      {1e-5, "1e-05"},
      {1.25e-7, "1.25e-07"},
      {1e100, "1e+100"},
      {1e308, "1e+308"},
      {5e-324, "5e-324"},
      {2.2250738585072014e-308, "2.2250738585072014e-308"},
      {1e-45, "1e-45"},
      {12.5, "12.5"},
      {3.4028234663852886e38, "3.4028234663852886e+38"},
      {std::numeric_limits<double>::infinity(), "float(\"inf\")"},
      {-std::numeric_limits<double>::infinity(), "float(\"-inf\")"},
      {std::numeric_limits<double>::quiet_NaN(), "float(\"nan\")"}};
  for (auto [value, expected] : cases) CHECK(float_text(value) == expected);
}

TEST_CASE("strings are escaped") {
  std::string out;
  append_string(out, "a\"b\\c\n\x01\xc3\xa9");
  CHECK(out == "\"a\\\"b\\\\c\\x0a\\x01\xc3\xa9\"");
}

TEST_CASE("integers by the type of the schema") {
  CHECK(text(6) == "6");
  CHECK(text(std::numeric_limits<int64_t>::min()) == "-9223372036854775808");
  CHECK(text(6, c10::ScalarTypeType::get()) == "torch.float32");
  CHECK(text(15, c10::OptionalType::create(c10::ScalarTypeType::get())) == "torch.bfloat16");
  CHECK(text(0, c10::LayoutType::get()) == "torch.strided");
  CHECK(text(1, c10::LayoutType::get()) == "torch.sparse_coo");
  CHECK(text(2, c10::MemoryFormatType::get()) == "torch.channels_last");
}

TEST_CASE("other constants") {
  CHECK(text(c10::IValue()) == "None");
  CHECK(text(true) == "True");
  CHECK(text(c10::complex<double>(-0.0, 2)) == "complex(-0.0, 2.0)");
  CHECK(text(at::Device("cuda:1")) == "\"cuda:1\"");
  CHECK(text(c10::List<int64_t>({1, -1})) == "[1, -1]");
  CHECK(text(c10::List<int64_t>(std::initializer_list<int64_t>{})) == "[]");
  CHECK(text(c10::List<bool>({true, false})) == "[True, False]");
  CHECK(text(wrapped(2).constant) == "2");
  CHECK(text(wrapped(2.5).constant) == "2.5");
  CHECK(text(wrapped(true).constant) == "True");
  CHECK(text(wrapped(c10::complex<double>(0, 1)).constant) == "complex(0.0, 1.0)");
}

TEST_CASE("equal constants") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(same_constant(nan, nan));
  CHECK(!same_constant(0.0, -0.0));
  CHECK(!same_constant(1, 1.0));
  CHECK(!same_constant(true, 1));
  CHECK(!same_constant(c10::IValue(), 0));
  CHECK(same_constant(c10::complex<double>(1, nan), c10::complex<double>(1, nan)));
  CHECK(!same_constant(c10::complex<double>(1, 0.0), c10::complex<double>(1, -0.0)));
  CHECK(same_constant("a", "a"));
  CHECK(!same_constant("a", "b"));
  CHECK(same_constant(c10::List<int64_t>({1, 2}), c10::List<int64_t>({1, 2})));
  CHECK(!same_constant(c10::List<int64_t>({1, 2}), c10::List<int64_t>({1})));
  CHECK(!same_constant(c10::List<double>({1.0}), c10::List<int64_t>({1})));
  CHECK(same_constant(wrapped(2).constant, wrapped(2).constant));
  CHECK(!same_constant(wrapped(2).constant, wrapped(2.0).constant));
  CHECK(!same_constant(wrapped(2).constant, wrapped(3).constant));
  CHECK(!same_constant(wrapped(2).constant, 2));
  const at::Generator standard = at::globalContext().defaultGenerator(at::Device(at::kCPU));
  CHECK(same_constant(standard, c10::IValue()));
  CHECK(!same_constant(standard.clone(), c10::IValue()));
}
