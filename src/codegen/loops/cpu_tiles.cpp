#include "codegen/loops/cpu_tiles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fulgurite {
namespace {

// Lanes of two vectors, in an order: each after `count` of its own of the first, then as many of
// the second, beginning with lane `from` of every `group`.
std::string lanes_in_turns(int lanes, int group, int count, int from) {
  std::vector<int> order;
  for (int begin = 0; begin < lanes; begin += group)
    for (int i = from; i < from + group / 2; i += count)
      for (int vector : {0, lanes})
        for (int j = 0; j < count; ++j) order.push_back(vector + begin + i + j);
  return fmt::format("{}", fmt::join(order, ", "));
}

std::string lanes_by_quarters(int lanes, bool second) {
  std::vector<int> order;
  for (int vector : {0, lanes})
    for (int begin = second ? 4 : 0; begin < lanes; begin += 8)
      for (int j = 0; j < 4; ++j) order.push_back(vector + begin + j);
  return fmt::format("{}", fmt::join(order, ", "));
}

// A square of floats turned: neighbours exchanged within quarters of 128 bits, in two steps, then
// quarters. `line` makes of each column what is written.
std::string turned_floats(int lanes) {
  std::string text = "\n// L rows of a matrix as columns, of elements of 4 bytes.\n";
  const auto mix = [&](const char* name, const std::string& order) {
    text += fmt::format(
        "INL f32v {}(f32v a, f32v b) {{\n  return __builtin_shufflevector(a, b, {});\n}}\n", name,
        order);
  };
  mix("low_ones", lanes_in_turns(lanes, 4, 1, 0));
  mix("high_ones", lanes_in_turns(lanes, 4, 1, 2));
  mix("low_twos", lanes_in_turns(lanes, 4, 2, 0));
  mix("high_twos", lanes_in_turns(lanes, 4, 2, 2));
  mix("even_quarters", lanes_by_quarters(lanes, false));
  mix("odd_quarters", lanes_by_quarters(lanes, true));
  text += "template <class F>\n";
  text += "INL void transposed(float* to, long d, const float* from, long stride, F line) {\n";
  const auto line = [&](int step, int i, const std::string& value) {
    text += fmt::format("  const f32v v{}_{} = {};\n", step, i, value);
  };
  const auto pair = [&](int step, int i, const char* mixed, int a, int b) {
    line(step, i, fmt::format("{}(v{}_{}, v{}_{})", mixed, step - 1, a, step - 1, b));
  };
  for (int i = 0; i < lanes; ++i) line(0, i, fmt::format("load(from + {} * stride)", i));
  for (int i = 0; i < lanes; i += 2) {
    pair(1, i, "low_ones", i, i + 1);
    pair(1, i + 1, "high_ones", i, i + 1);
  }
  // Row i of four now holds column i of each quarter.
  for (int i = 0; i < lanes; i += 4) {
    pair(2, i, "low_twos", i, i + 2);
    pair(2, i + 1, "high_twos", i, i + 2);
    pair(2, i + 2, "low_twos", i + 1, i + 3);
    pair(2, i + 3, "high_twos", i + 1, i + 3);
  }
  int step = 3;
  for (int apart = 4; apart < lanes; apart *= 2, ++step)
    for (int i = 0; i < lanes; ++i)
      if (!(i & apart)) {
        pair(step, i, "even_quarters", i, i + apart);
        pair(step, i + apart, "odd_quarters", i, i + apart);
      }
  for (int i = 0; i < lanes; ++i)
    text += fmt::format("  const f32v r{0} = line({0}, v{1}_{0});\n", i, step - 1);
  for (int i = 0; i < lanes; ++i) text += fmt::format("  store(to + {0} * d, r{0});\n", i);
  return text + "}\n";
}

constexpr std::string_view kTurned = R"(
template <class T> INL void transposed(T* to, const T* from, long stride) {
  for (long j = 0; j < L; j++)
    for (long k = 0; k < L; k++) to[k * L + j] = from[j * stride + k];
}
)";

}  // namespace

bool CpuTiles::any() const {
  if (program_.rank() < 2 || body_.counts_lanes() || !body_.parameters().empty()) return false;
  for (const ScalarNode& node : program_.statements.nodes())
    if (node.prim == Prim::Index) return false;
  bool reads_across = false;
  for (size_t i = 0; i < at_.count(); ++i) {
    if (at_.is_store(i) && at_.stride(i) != 1) return false;
    reads_across |= is_transposed(i);
  }
  return reads_across;
}

bool CpuTiles::turns_in_registers(size_t i) const {
  return at_[i].dtype == c10::ScalarType::Float && vectors_.lane_bytes == 4 &&
         vectors_.bytes() == vectors_.machine_bytes;
}

// The one access that is transposed, where all goes through registers; -1: there is none.
int32_t CpuTiles::only_turned() const {
  int32_t only = -1;
  for (size_t i = 0; i < at_.first_store(); ++i)
    if (is_transposed(i)) {
      if (only >= 0 || !turns_in_registers(i)) return -1;
      only = static_cast<int32_t>(i);
    }
  const bool one = program_.stores.size() == 1 &&
                   program_.stores[0].access.dtype == c10::ScalarType::Float && !body_.is_costly();
  return one ? only : -1;
}

std::string CpuTiles::tiles() {
  std::string out;
  for (size_t i = 0; i < at_.count(); ++i) {
    const std::string_view type = element_type(at_[i].dtype);
    if (at_.is_store(i) || is_transposed(i))
      out += fmt::format("    alignas(64) {} tile_{}[L * L];\n", type, at_.pointer(i));
    if (!is_transposed(i)) continue;
    const bool in_registers = turns_in_registers(i);
    prelude_.append(in_registers ? "transposed_floats" : "transposed",
                    in_registers ? turned_floats(vectors_.lanes) : std::string(kTurned));
    out += in_registers ? fmt::format(
                              "    transposed(tile_{0}, L, {0} + i * s{1}, s{1},\n"
                              "               [](long, f32v turned) {{ return turned; }});\n",
                              at_.pointer(i), i)
                        : fmt::format("    transposed(tile_{0}, {0} + i * s{1}, s{1});\n",
                                      at_.pointer(i), i);
  }
  return out;
}

// Results are written together: a load waits for an earlier store to the same place of a page, and
// rows may be pages apart.
std::string CpuTiles::band() {
  const int32_t only = only_turned();
  CpuBody::Context context{.index = "i", .pointer = "p"};
  for (int32_t i = 0; i < program_.statements.size(); ++i) {
    const ScalarNode& node = program_.statements[i];
    if (node.prim == Prim::Load && is_transposed(static_cast<size_t>(node.at)))
      context.given[i] = only >= 0 ? "turned" : fmt::format("load(tile_x{} + j * L)", node.at);
  }
  std::vector<int32_t> roots;
  std::string steps, rows, ahead, made, written;
  for (size_t i = 0; i < at_.count(); ++i)
    if (!is_transposed(i))
      steps += fmt::format("  const long d{} = {};\n", i, at_.stride_text(i, across()));
  for (size_t i = 0; i < at_.first_store(); ++i)
    if (is_transposed(i)) {
      ahead += fmt::format("      __builtin_prefetch(x{0} + (i + L + j) * s{0}, 0, 2);\n", i);
    } else {
      rows += fmt::format("    {} p{} = x{} + j * d{};\n", at_.pointer_type(i), i, i, i);
      if (at_.stride(i) == 1)
        ahead += fmt::format("      __builtin_prefetch(x{0} + j * d{0} + i + L, 0, 2);\n", i);
    }
  for (size_t s = 0; s < program_.stores.size(); ++s) {
    const Store& store = program_.stores[s];
    const size_t i = at_.first_store() + s;
    const std::string value = body_.in_memory_type(store.statement, store.access.dtype);
    roots.push_back(store.statement);
    made += only >= 0 ? fmt::format("    return {};\n", value)
                      : fmt::format("    store(tile_y{} + j * L, {});\n", s, value);
    ahead += fmt::format("      __builtin_prefetch(y{} + j * d{} + i + L, 1, 2);\n", s, i);
    written += fmt::format(
        "      __builtin_memcpy(y{0} + j * d{1} + i, tile_y{0} + j * L, sizeof tile_y{0} / L);\n",
        s, i);
  }
  const std::string line =
      rows + body_.row_statements(-1, context) + body_.inner_statements(roots, context) + made;
  std::string tile;
  if (only >= 0) {
    prelude_.append("transposed_floats", turned_floats(vectors_.lanes));
    tile = fmt::format(
        "    transposed(y0 + i, d{0}, x{1} + i * s{1}, s{1}, [=](long j, f32v turned)\n"
        "        __attribute__((always_inline)) {{\n{2}    }});\n",
        at_.first_store(), only, line);
  } else {
    tile = tiles() + "    for (long j = 0; j < L; j++) {\n" + line + "    }\n";
    tile += "    for (long j = 0; j < L; j++) {\n" + written + "    }\n";
  }
  // From memory a tile takes longer than the machine looks ahead: the next one is asked for.
  std::string given;
  for (size_t i = 0; i < at_.count(); ++i) {
    given += at_.pointer(i) + ", ";
    if (at_.is_strided(i)) given += fmt::format("s{}, ", i);
  }
  return fmt::format(
      R"(static __attribute__((noinline)) void ahead({0}const long* strides, long i) {{
{1}  for (long j = 0; j < L; j++) {{
{2}  }}
}}
static __attribute__((noinline)) void band({0}const long* strides, long n, bool far) {{
{1}  long i = 0;
  for (; i + L <= n; i += L) {{
    if (far) ahead({3}strides, i);
{4}  }}
  for (long j = 0; i < n && j < L; j++)
    row({5}i, n - i, false);
}}
)",
      at_.parameters(), steps, ahead, given, tile, rest());
}

std::string CpuTiles::rest() const {
  std::string out;
  for (size_t i = 0; i < at_.count(); ++i) {
    out += fmt::format("{} + j * {}", at_.pointer(i), at_.stride_text(i, across()));
    if (at_.stride(i) == 1) out += " + i";
    if (at_.is_strided(i)) out += fmt::format(" + i * s{0}, s{0}", i);
    out += ", ";
  }
  return out;
}

std::string CpuTiles::call(const std::string& pointers, const std::string& advance) const {
  return fmt::format(R"(    if (at == 0 && i{0} + L <= sizes[{0}] && end - begin >= L * n) {{
      band({1}strides, n, args->streaming);
      begin += L * n;
      i{0} += L;
{2}      continue;
    }}
)",
                     across(), pointers, advance);
}

}  // namespace fulgurite
