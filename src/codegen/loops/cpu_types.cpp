#include "codegen/loops/cpu_types.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace fulgurite {
namespace {

using c10::ScalarType;

bool is_wide(ScalarType dtype) { return c10::elementSize(dtype) == 8; }

std::string select_text(ScalarType dtype) {
  if (dtype == ScalarType::Bool)
    return "INL mask mask_select(mask m, mask x, mask y) { return m ? x : y; }\n";
  return fmt::format(R"(
INL {0}v {0}_select(mask m, {0}v x, {0}v y) {{
  typedef decltype(x == x) wide;
  return __builtin_convertvector(m, wide) ? x : y;
}}
)",
                     vector_name(dtype));
}

// Widening needs half as many instructions, and what is no bfloat16 two more to move lanes. Not
// where something else tells the order of lanes.
bool gains_by_split_lanes(const LoopProgram& program) {
  const int32_t lane = program.lane_dimension();
  int gain = 0;
  for (const Access& load : program.loads) {
    if (load.dtype == ScalarType::Half) return false;
    if (load.strides[lane] == 0) continue;
    gain += load.dtype == ScalarType::BFloat16 && load.strides[lane] == 1 ? 2 : -2;
  }
  for (const Store& store : program.stores) {
    if (store.access.dtype == ScalarType::Half) return false;
    if (!store.per_row)
      gain -= store.access.dtype == ScalarType::BFloat16 && store.access.strides[lane] == 1 ? 1 : 2;
  }
  for (const ScalarNode& node : program.statements.nodes()) {
    if (is_running(node.prim)) return false;
    const bool gathers = node.prim == Prim::Load && node.args[0] >= 0;
    if (gathers && program.loads[node.at].by_lane) return false;
  }
  return gain > 0 && program.statements.checks.empty();
}

}  // namespace

std::string_view vector_name(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Bool:
      return "mask";
    case ScalarType::Byte:
      return "u8";
    case ScalarType::Char:
      return "i8";
    case ScalarType::Short:
      return "i16";
    case ScalarType::Int:
      return "i32";
    case ScalarType::Long:
      return "i64";
    case ScalarType::Half:
      return "f16";
    case ScalarType::BFloat16:
      return "bf16";
    case ScalarType::Float:
      return "f32";
    case ScalarType::Double:
      return "f64";
    default:
      internal_error("{} is in no loop program", c10::toString(dtype));
  }
}

std::string vector_type(ScalarType dtype) {
  return dtype == ScalarType::Bool ? "mask" : std::string(vector_name(dtype)) + "v";
}

std::string_view element_type(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Bool:
      return "bool";
    case ScalarType::Byte:
      return "unsigned char";
    case ScalarType::Char:
      return "signed char";
    case ScalarType::Short:
      return "short";
    case ScalarType::Int:
      return "int";
    case ScalarType::Long:
      return "long";
    case ScalarType::Float:
      return "float";
    case ScalarType::Double:
      return "double";
    default:
      return vector_name(dtype);
  }
}

CpuVectors vectors_of(const LoopProgram& program, int machine_bytes, int side_by_side) {
  size_t largest = 1;
  bool any_four = false;
  for (const ScalarNode& node : program.statements.nodes()) {
    const size_t size = c10::elementSize(node.dtype);
    any_four |= size == 4;
    largest = std::max(largest, size);
  }
  // Lanes that are counted have numbers: not more of them than a byte has, even side by side.
  if (!program.statements.checks.empty()) largest = std::max<size_t>(largest, 2);
  const int lane_bytes = static_cast<int>(any_four ? 4 : largest);
  // Two vectors are narrowed to one faster than each to a half.
  const bool narrows = std::ranges::any_of(program.stores, [](const Store& store) {
    return !store.per_row && store.access.dtype == ScalarType::BFloat16;
  });
  if (narrows && machine_bytes == 64 && side_by_side == 1) side_by_side = 2;
  const bool split = machine_bytes == 64 && lane_bytes == 4 && side_by_side <= 2 &&
                     !program.columns && gains_by_split_lanes(program);
  if (split) side_by_side = 2;
  return {side_by_side * machine_bytes / lane_bytes, lane_bytes, machine_bytes, split};
}

std::string text_of(const LoopProgram& program, const CpuVectors& vectors, const Prelude& prelude,
                    const std::string& code) {
  // More are in no lane of a byte; columns side by side, which have as many, do not ask for them.
  std::vector<int> numbers(vectors.lanes <= 128 ? vectors.lanes : 1);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::string orders;
  if (vectors.split) {
    const int half = vectors.lanes / 2;
    std::vector<int> joined;
    for (int j = 0; j < vectors.lanes; ++j) {
      numbers[j] = j % half * 2 + j / half;
      joined.push_back(j % 2 * half + j / 2);
    }
    const auto order = [](std::string_view macro, const std::vector<int>& lanes) {
      return fmt::format("#define {}(x) __builtin_shufflevector(x, x, {})\n", macro,
                         fmt::join(lanes, ", "));
    };
    orders = order("SPLIT", numbers) + order("JOINED", joined);
  }
  constexpr std::string_view kInts[] = {"signed char", "short", "", "int", "", "", "", "long"};
  return fmt::format(R"(// {}
struct KernelArgs {{
  void* const* pointers;
  const long *sizes, *strides;
  long streaming;
  const long* given;
  long* failed;
}};
#define INLINE inline __attribute__((always_inline))
#define INL static INLINE
#define BITS(T, x) __builtin_bit_cast(T, x)
#define FMA __builtin_elementwise_fma
#define INF __builtin_inff()
#define NAN __builtin_nanf("")
enum {{ L = {} }};
typedef {} lane;
typedef lane mask __attribute__((vector_size({})));
static const mask lane_index = {{{}}};
{}{}
{})",
                     fmt::join(program.operators, ", "), vectors.lanes,
                     kInts[vectors.lane_bytes - 1], vectors.bytes(), fmt::join(numbers, ", "),
                     orders, prelude.text(), code);
}

void use_type(Prelude& prelude, ScalarType dtype) {
  const bool known = prelude.use(vector_name(dtype));
  require(known, "no vectors of {}", c10::toString(dtype));
}

std::string use_select(Prelude& prelude, ScalarType dtype) {
  std::string name = fmt::format("{}_select", vector_name(dtype));
  prelude.append(name, select_text(dtype));
  return name;
}

std::string use_conversion(Prelude& prelude, ScalarType from, ScalarType to) {
  const std::string name = fmt::format("{}_to_{}", vector_name(from), vector_name(to));
  const std::string a = vector_type(from), b = vector_type(to);
  std::string value = fmt::format("__builtin_convertvector(x, {})", b);
  if (to == ScalarType::Bool) {
    value = "__builtin_convertvector(x != 0, mask)";
  } else if (from == ScalarType::Bool) {
    value = fmt::format("__builtin_convertvector(x & 1, {})", b);
  } else if (c10::isFloatingType(from) && !c10::isFloatingType(to) && !is_wide(to)) {
    // As C++ compilers for this machine do it: by way of a wider integer.
    const ScalarType way = to == ScalarType::Byte ? ScalarType::Long : ScalarType::Int;
    if (way != to) {
      use_type(prelude, way);
      value = fmt::format("__builtin_convertvector(__builtin_convertvector(x, {}), {})",
                          vector_type(way), b);
    }
  }
  prelude.append(name, fmt::format("INL {} {}({} x) {{ return {}; }}\n", b, name, a, value));
  return name;
}

}  // namespace fulgurite
