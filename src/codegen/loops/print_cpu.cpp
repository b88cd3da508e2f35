#include "codegen/loops/print_cpu.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/loops/cpu_access.h"
#include "codegen/loops/cpu_body.h"
#include "codegen/loops/cpu_tiles.h"
#include "codegen/loops/cpu_types.h"
#include "codegen/loops/print_cpu_columns.h"
#include "codegen/loops/print_cpu_rows.h"

namespace fulgurite {
namespace {

// `vectors` goes through whole vectors of a row; `row` adds the rest of it.
class PointwisePrinter {
 public:
  PointwisePrinter(const LoopProgram& program, int vector_bytes)
      : program_(program),
        at_(program),
        vectors_(vectors_of(program, vector_bytes)),
        prelude_(vectors_.sixteens(), vectors_.split),
        body_(program, prelude_),
        tiles_(program, at_, vectors_, prelude_, body_) {
    prelude_.use("mask");
  }

  std::string print(std::string_view name) {
    std::string code = vectors("vectors", false);
    if (streams()) code += vectors("streaming_vectors", true);
    code += row();
    if (tiles_.any()) code += tiles_.band();
    code += entry(name);
    return text_of(program_, vectors_, prelude_, code);
  }

 private:
  // Never read beyond what there is.
  bool is_gathered(size_t i) const { return !at_.is_store(i) && at_[i].by_lane; }
  std::vector<int32_t> roots() const {
    std::vector<int32_t> all;
    for (const Store& store : program_.stores) all.push_back(store.statement);
    std::ranges::copy(body_.inner_checks(), std::back_inserter(all));
    return all;
  }

  std::string parameters() const {
    return at_.parameters() + body_.parameters() + "long at, long n";
  }

  // With a count of lanes that are to be read, where reads could be out of bounds.
  std::string vectors(std::string_view name, bool streaming) {
    for (size_t i = 0; i < at_.count(); ++i) use_type(prelude_, at_[i].dtype);
    std::string out = fmt::format("static __attribute__((noinline)) void {}({}{}) {{\n", name,
                                  parameters(), body_.counts_lanes() ? ", long active" : "");
    CpuBody::Context context;
    if (body_.counts_lanes()) context.active = "active";
    out += body_.begin_checks() + body_.row_statements(-1, context);
    out += fmt::format("  for (long i = 0; i < n; i += {}) {{\n", vectors_.lanes);
    out += body_.inner_statements(roots(), context);
    for (const Store& store : program_.stores) out += stored(store, streaming);
    return out + "  }\n" + body_.end_checks() + "}\n";
  }

  std::string stored(const Store& store, bool streaming) {
    const size_t i = at_.first_store() + static_cast<size_t>(&store - program_.stores.data());
    const std::string value = body_.in_memory_type(store.statement, store.access.dtype);
    if (streaming) {
      prelude_.use(fmt::format("{}_stream", vector_name(store.access.dtype)));
      return fmt::format("    stream({} + i, {});\n", at_.pointer(i), value);
    }
    if (at_.stride(i) == 1) return fmt::format("    store({} + i, {});\n", at_.pointer(i), value);
    require(at_.stride(i) != 0, "a result without room for its elements");
    prelude_.use("strided_store");
    return fmt::format("    store({0} + i * s{1}, s{1}, {2});\n", at_.pointer(i), i, value);
  }

  // Worth a loop of its own only where memory is what bounds it: a function takes as long as three
  // floats. Possible only where whole vectors lie side by side.
  bool streams() const {
    if (!program_.may_stream || tiles_.any()) return false;
    int64_t bytes = 0, costly = 0;
    for (size_t i = 0; i < at_.count(); ++i)
      if (at_.stride(i) != 0) bytes += static_cast<int64_t>(c10::elementSize(at_[i].dtype));
    for (int32_t i = 0; i < program_.statements.size(); ++i)
      costly += body_.is_inner(i) && body_.is_costly(i);
    if (bytes < costly * 3 * static_cast<int64_t>(sizeof(float)) || body_.counts_lanes())
      return false;
    for (size_t i = at_.first_store(); i < at_.count(); ++i)
      if (at_.stride(i) != 1 || !vectors_.can_stream(at_[i].dtype)) return false;
    return true;
  }
  std::string arguments(bool staged, std::string_view at, std::string_view n) const {
    std::string out;
    for (size_t i = 0; i < at_.count(); ++i) {
      const bool in_stage = staged && (at_.is_store(i) || (at_.stride(i) != 0 && !is_gathered(i)));
      const std::string moved = is_gathered(i) && staged && at_.stride(i) != 0
                                    ? fmt::format("{} + whole{}", at_.pointer(i),
                                                  at_.is_strided(i) ? fmt::format(" * s{}", i) : "")
                                    : at_.pointer(i);
      out += in_stage ? fmt::format("stage_{}, ", at_.pointer(i)) : moved + ", ";
      if (at_.is_strided(i)) out += in_stage ? "1, " : fmt::format("s{}, ", i);
    }
    return out + body_.arguments() + fmt::format("{}, {}", at, n);
  }

  std::string row() {
    prelude_.use("stage");
    std::string out = fmt::format("static void row({}, bool streaming) {{\n", parameters());
    out += fmt::format("  const long whole = n & -{}l, rest = n - whole;\n", vectors_.lanes);
    const std::string given = arguments(false, "at", "whole");
    if (streams()) {
      std::string aligned = "streaming";
      for (size_t i = at_.first_store(); i < at_.count(); ++i)
        aligned += fmt::format(" && !((long){} & {})", at_.pointer(i),
                               vectors_.stored_bytes(at_[i].dtype) - 1);
      out += fmt::format("  if (whole && {}) streaming_vectors({});\n  else", aligned, given);
    }
    const std::string_view all = body_.counts_lanes() ? ", L" : "";
    out += fmt::format("  if (whole) vectors({}{});\n", given, all);
    out += "  if (!rest) return;\n";
    for (size_t i = 0; i < at_.count(); ++i) out += staged(i);
    out += fmt::format("  vectors({}{});\n", arguments(true, "at + whole", "L"),
                       body_.counts_lanes() ? ", rest" : "");
    for (size_t i = at_.first_store(); i < at_.count(); ++i)
      out += fmt::format("  unstage({0} + whole{1}, {2}, stage_{0}, rest);\n", at_.pointer(i),
                         at_.is_strided(i) ? fmt::format(" * s{}", i) : "", step(i));
    return out + "}\n";
  }
  std::string step(size_t i) const { return at_.is_strided(i) ? fmt::format("s{}", i) : "1"; }
  std::string staged(size_t i) const {
    if (!at_.is_store(i) && (at_.stride(i) == 0 || is_gathered(i))) return "";
    std::string out =
        fmt::format("  {} stage_{}[L];\n", element_type(at_[i].dtype), at_.pointer(i));
    if (at_.is_store(i)) return out;
    return out + fmt::format("  stage(stage_{0}, {0} + whole{1}, {2}, rest);\n", at_.pointer(i),
                             at_.is_strided(i) ? fmt::format(" * s{}", i) : "", step(i));
  }

  // The pointer of an access at the first place of a row.
  std::string at_row(size_t i) const {
    const int32_t inner = program_.rank() - 1;
    std::string out = at_.pointer(i);
    for (int32_t d = 0; d < inner; ++d)
      if (body_.rank() > 1) out += fmt::format(" + i{} * {}", d, at_.stride_text(i, d));
    if (at_.stride(i) == 1) out += " + at";
    if (at_.is_strided(i)) out += fmt::format(" + at * s{}", i);
    return out;
  }

  std::string pointers_of_row() const {
    std::string out;
    for (size_t i = 0; i < at_.count(); ++i) {
      out += at_row(i) + ", ";
      if (at_.is_strided(i)) out += fmt::format("s{}, ", i);
    }
    return out;
  }

  std::string call_of_row(std::string_view n) const {
    return fmt::format("row({}{}at, {}, args->streaming);", pointers_of_row(), body_.arguments(),
                       n);
  }

  // Indices of the dimensions from d on after one more of d, or after d has reached its end.
  std::string advanced(int32_t d, bool at_end) const {
    if (d == 0) return at_end ? "" : "    ++i0;\n";
    return fmt::format("    if ({0}i{1} == sizes[{1}]) {{\n      i{1} = 0;\n{2}    }}\n",
                       at_end ? "" : "++", d, advanced(d - 1, false));
  }

  std::string entry(std::string_view name) {
    const int32_t inner = program_.rank() - 1;
    std::string out = fmt::format(
        "extern \"C\" void {}(const KernelArgs* args, long begin, long end) {{\n", name);
    out += at_.from_arguments();
    if (inner == 0)
      return out + "  const long at = begin;\n  if (begin < end) " + call_of_row("end - begin") +
             "\n}\n";
    out += fmt::format("  const long n = sizes[{}];\n", inner);
    out += "  long at = begin % n, q = begin / n;\n";
    for (int32_t d = inner - 1; d >= 0; --d)
      out += d ? fmt::format("  long i{0} = q % sizes[{0}];\n  q /= sizes[{0}];\n", d)
               : std::string("  long i0 = q;\n");
    out += "  while (begin < end) {\n";
    if (tiles_.any()) out += tiles_.call(pointers_of_row(), advanced(inner - 1, true));
    out += "    const long rest = end - begin, length = n - at < rest ? n - at : rest;\n";
    out += "    " + call_of_row("length") + "\n";
    out += "    begin += length;\n    at = 0;\n";
    return out + advanced(inner - 1, false) + "  }\n}\n";
  }

  const LoopProgram& program_;
  CpuAccesses at_;
  CpuVectors vectors_;
  Prelude prelude_;
  CpuBody body_;
  CpuTiles tiles_;
};

}  // namespace

std::string print_cpu(const LoopProgram& program, std::string_view name, int vector_bytes) {
  if (program.columns) return print_cpu_columns(program, name, vector_bytes);
  if (program.reduced) return print_cpu_rows(program, name, vector_bytes);
  return PointwisePrinter(program, vector_bytes).print(name);
}

}  // namespace fulgurite
