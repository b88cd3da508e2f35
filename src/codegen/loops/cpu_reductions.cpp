#include "codegen/loops/cpu_reductions.h"

#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/loops/cpu_types.h"

namespace fulgurite {
namespace {

using c10::ScalarType;
using Kind = ReductionKind;

bool is_extremum(Kind kind) {
  return kind == Kind::Maximum || kind == Kind::Minimum || kind == Kind::MaximumNumber;
}

template <class T>
std::string limit(bool largest) {
  using Limits = std::numeric_limits<T>;
  if (sizeof(T) == 8 && !largest) return "-9223372036854775807l - 1";
  return fmt::format("{}", static_cast<int64_t>(largest ? Limits::max() : Limits::min()));
}

std::string limit_of(ScalarType dtype, bool largest) {
  switch (dtype) {
    case ScalarType::Float:
    case ScalarType::Double:
      return largest ? "INF" : "-INF";
    case ScalarType::Byte:
      return limit<uint8_t>(largest);
    case ScalarType::Char:
      return limit<int8_t>(largest);
    case ScalarType::Short:
      return limit<int16_t>(largest);
    case ScalarType::Int:
      return limit<int32_t>(largest);
    default:
      return limit<int64_t>(largest);
  }
}

std::string name_of(Kind kind, ScalarType dtype) {
  const std::string_view what = kind == Kind::Maximum   ? "maximum"
                                : kind == Kind::Minimum ? "minimum"
                                                        : "maximum_number";
  return fmt::format("{}_{}", vector_name(dtype), what);
}

// Of a running extremum and the next vector; a NaN of either stays, but in maximum_number.
std::string use_extremum(Prelude& prelude, Kind kind, ScalarType dtype) {
  std::string name = name_of(kind, dtype);
  const bool keeps_nan = c10::isFloatingType(dtype) && kind != Kind::MaximumNumber;
  std::string choice = kind == Kind::Minimum ? "a < x" : "a > x";
  choice = keeps_nan ? fmt::format("({}) | (a != a) ? a : x", choice) : "x > a ? x : a";
  if (!keeps_nan && kind == Kind::Minimum) choice = "x < a ? x : a";
  prelude.append(name, fmt::format("INL {0}v {1}({0}v a, {0}v x) {{ return {2}; }}\n",
                                   vector_name(dtype), name, choice));
  return name;
}

std::string exchanged(std::string_view vector, int lanes, int distance) {
  std::string out = fmt::format("__builtin_shufflevector({0}, {0}", vector);
  for (int j = 0; j < lanes; ++j) out += fmt::format(", {}", j ^ distance);
  return out + ")";
}

}  // namespace

std::string identity_of(Prelude& prelude, Kind kind, ScalarType dtype) {
  use_type(prelude, dtype);
  switch (kind) {
    case Kind::Any:
      return "truth(false)";
    case Kind::All:
      return "truth(true)";
    case Kind::Sum:
      return fmt::format("{}(0)", vector_name(dtype));
    case Kind::Product:
      return fmt::format("{}(1)", vector_name(dtype));
    default:
      return fmt::format("{}({})", vector_name(dtype), limit_of(dtype, kind == Kind::Minimum));
  }
}

std::string combined(Prelude& prelude, Kind kind, ScalarType dtype, const std::string& accumulator,
                     const std::string& value) {
  if (is_extremum(kind))
    return fmt::format("{}({}, {})", use_extremum(prelude, kind, dtype), accumulator, value);
  const char sign = kind == Kind::Sum       ? '+'
                    : kind == Kind::Product ? '*'
                    : kind == Kind::Any     ? '|'
                                            : '&';
  return fmt::format("{} {} {}", accumulator, sign, value);
}

std::string total_declared(int32_t i, ScalarType dtype) {
  return fmt::format("  {0} total{1} = {0}{{}}, lost{1} = {0}{{}};\n", vector_type(dtype), i);
}

std::string add_to_total(Prelude& prelude, int32_t i, ScalarType dtype,
                         const std::string& partial) {
  const std::string name = fmt::format("{}_add_to_total", vector_name(dtype));
  // Of an infinite or undefined total nothing is lost.
  prelude.append(name, fmt::format("INL void {0}({1}& total, {1}& lost, {1} x) {{\n"
                                   "  const {1} y = x - lost, t = total + y, zero = t - t;\n"
                                   "  lost = {2}(__builtin_convertvector(zero == zero, mask), "
                                   "(t - total) - y, {1}{{}});\n"
                                   "  total = t;\n}}\n",
                                   name, vector_type(dtype), use_select(prelude, dtype)));
  return fmt::format("{0}(total{1}, lost{1}, {2});", name, i, partial);
}

std::string total_of(int32_t i, std::string_view of) {
  return fmt::format("{1}total{0} - {1}lost{0}", i, of);
}

std::string across_lanes(Prelude& prelude, Kind kind, ScalarType dtype, int lanes,
                         const std::string& accumulator) {
  const std::string name = fmt::format("{}_across_{}", vector_name(dtype), static_cast<int>(kind));
  std::string text = fmt::format("INL {0} {1}({0} a) {{\n", vector_type(dtype), name);
  for (int distance = lanes / 2; distance; distance /= 2)
    text += fmt::format("  a = {};\n",
                        combined(prelude, kind, dtype, "a", exchanged("a", lanes, distance)));
  prelude.append(name, text + "  return a;\n}\n");
  return fmt::format("{}({})", name, accumulator);
}

}  // namespace fulgurite
