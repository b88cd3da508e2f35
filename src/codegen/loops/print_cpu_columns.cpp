#include "codegen/loops/print_cpu_columns.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "codegen/loops/cpu_access.h"
#include "codegen/loops/cpu_body.h"
#include "codegen/loops/cpu_reductions.h"
#include "codegen/loops/cpu_types.h"

namespace fulgurite {
namespace {

// Several vectors side by side make whole lines of memory, and hide the latency of additions.
constexpr int kVectors = 4;
// After so many elements sums go to a total: the error grows with the number of addends.
constexpr int kElementsPerTotal = 16;

class ColumnPrinter {
 public:
  ColumnPrinter(const LoopProgram& program, int vector_bytes)
      : program_(program),
        at_(program),
        lanes_(kVectors * lanes_of(program, vector_bytes)),
        vector_bytes_(kVectors * vector_bytes),
        prelude_(vector_bytes, lanes_),
        body_(program, prelude_) {
    prelude_.use("mask");
    for (size_t i = 0; i < at_.count(); ++i) use_type(prelude_, at_[i].dtype);
  }

  std::string print(std::string_view name) {
    require(!body_.any_gather(), "a reduction of gathered elements");
    const std::string loops = columns(false) + columns(true);
    std::string text = fmt::format("// {}\n", fmt::join(program_.operators, ", "));
    text += head_of_text(lanes_, vector_bytes_);
    return text + prelude_.text() + "\n" + loops + entry(name);
  }

 private:
  using Numbers = std::vector<int32_t>;

  int32_t inner() const { return program_.rank() - 1; }
  int32_t lane() const { return program_.lane_dimension(); }
  c10::ScalarType dtype_of(const Reduction& r) const {
    return program_.statements[r.statement].dtype;
  }
  CpuBody::Context context(const char* pointer) const { return {"", pointer, partial_, {}}; }

  // All rows of as many columns as there are lanes, or of the last k.
  std::string columns(bool partial) {
    partial_ = partial;
    std::string out = fmt::format("static void {}columns(", partial ? "last_" : "");
    out += at_.parameters();
    for (int32_t d : body_.outer_indices()) out += fmt::format("long i{}, ", d);
    out += "const long* sizes, const long* strides, long at, long k) {\n";
    out += fmt::format("  const long n = sizes[{}], count = n", inner());
    for (int32_t d = program_.kept(); d < inner(); ++d) out += fmt::format(" * sizes[{}]", d);
    out += fmt::format(";\n  const long sample = n < {0} ? n : {0};\n", kSampled);
    out += body_.row_statements(-1, context("x"));
    int32_t passes = 0;
    for (const Reduction& r : program_.reductions) passes = std::max(passes, r.pass + 1);
    for (int32_t pass = 0; pass < passes; ++pass) out += reductions(pass);
    return out + stores() + "}\n";
  }

  std::string reductions(int32_t pass) {
    Numbers whole, sampled;
    for (int32_t i = 0; i < static_cast<int32_t>(program_.reductions.size()); ++i)
      if (program_.reductions[i].pass == pass)
        (program_.reductions[i].sampled ? sampled : whole).push_back(i);
    return one_pass(sampled, true) + one_pass(whole, false) +
           body_.row_statements(pass, context("x"));
  }

  bool has_total(const Reduction& r) const {
    return r.kind == ReductionKind::Sum && !r.sampled && c10::isFloatingType(dtype_of(r));
  }

  std::string one_pass(const Numbers& numbers, bool sampled) {
    if (numbers.empty()) return "";
    std::string start, step, flush, end;
    Numbers roots;
    for (int32_t i : numbers) {
      const Reduction& r = program_.reductions[i];
      const std::string type = vector_type(dtype_of(r)), a = fmt::format("a{}", i);
      const std::string identity = identity_of(prelude_, r.kind, dtype_of(r));
      start += fmt::format("  {} {} = {};\n", type, a, identity);
      step +=
          fmt::format("    {} = {};\n", a,
                      combined(prelude_, r.kind, dtype_of(r), a, fmt::format("t{}", r.statement)));
      if (has_total(r)) {
        start += total_declared(i, dtype_of(r));
        flush += fmt::format("      {}\n      {} = {};\n",
                             add_to_total(prelude_, i, dtype_of(r), a), a, identity);
      }
      end += fmt::format("  const {0} r{1} = {2}a{1};\n", type, i,
                         has_total(r) ? total_of(i) + " + " : "");
      roots.push_back(r.statement);
    }
    if (!flush.empty()) {
      start += fmt::format("  long added{} = 0;\n", numbers.front());
      flush = fmt::format("    if (++added{} % {} == 0) {{\n{}    }}\n", numbers.front(),
                          kElementsPerTotal, flush);
    }
    return start + open_loops(sampled) + body_.inner_statements(roots, context("p")) + step +
           flush + close_loops(sampled) + end;
  }

  // Over all reduced dimensions, or over the first elements of the innermost.
  std::string open_loops(bool sampled) const {
    std::string out;
    for (int32_t d = program_.kept(); d <= inner(); ++d) {
      const bool first = sampled && d < inner();
      out += first ? fmt::format("  const long i{} = 0;\n", d)
                   : fmt::format("  for (long i{0} = 0; i{0} < {1}; i{0}++) {{\n", d,
                                 sampled ? "sample" : fmt::format("sizes[{}]", d));
    }
    for (size_t i = 0; i < at_.count(); ++i) {
      if (at_.is_store(i) && program_.stores[i - at_.first_store()].per_row) continue;
      std::string place = at_.pointer(i);
      for (int32_t d = program_.kept(); d <= inner(); ++d)
        place += fmt::format(" + i{} * {}", d, at_.stride_text(i, d));
      out += fmt::format("    {} {}{} = {};\n", at_.pointer_type(i), at_.is_store(i) ? "q" : "p",
                         at_.is_store(i) ? i - at_.first_store() : i, place);
    }
    return out;
  }
  std::string close_loops(bool sampled) const {
    std::string out;
    for (int32_t d = 0; d < (sampled ? 1 : program_.reduced); ++d) out += "  }\n";
    return out;
  }

  std::string stores() {
    Numbers roots;
    std::string once, each;
    for (size_t s = 0; s < program_.stores.size(); ++s) {
      const Store& store = program_.stores[s];
      (store.per_row ? once : each) += stored(s);
      if (!store.per_row) roots.push_back(store.statement);
    }
    if (roots.empty()) return once;
    return open_loops(false) + body_.inner_statements(roots, context("p")) + each +
           close_loops(false) + once;
  }

  std::string stored(size_t s) {
    const Store& store = program_.stores[s];
    const size_t i = at_.first_store() + s;
    const std::string value = body_.in_memory_type(store.statement, store.access.dtype);
    const std::string pointer = fmt::format("{}{}", store.per_row ? "y" : "q", s);
    const std::string step = at_.is_strided(i) ? fmt::format("s{}", i) : "1";
    if (partial_) {
      prelude_.use("store_part");
      return fmt::format("    store_part({}, {}, {}, k);\n", pointer, step, value);
    }
    if (!at_.is_strided(i)) return fmt::format("    store({}, {});\n", pointer, value);
    prelude_.use("strided_store");
    return fmt::format("    store({}, {}, {});\n", pointer, step, value);
  }

  std::string call(std::string_view function, std::string_view k) const {
    std::string out = fmt::format("{}(", function);
    for (size_t i = 0; i < at_.count(); ++i) {
      out += at_.pointer(i);
      for (int32_t d = 0; d < lane(); ++d)
        out += fmt::format(" + i{} * {}", d, at_.stride_text(i, d));
      if (at_.stride(i) != 0)
        out += at_.is_strided(i) ? fmt::format(" + at * s{}", i) : std::string(" + at");
      out += ", ";
      if (at_.is_strided(i)) out += fmt::format("s{}, ", i);
    }
    for (int32_t d : body_.outer_indices()) out += fmt::format("i{}, ", d);
    return out + fmt::format("sizes, strides, at, {});", k);
  }

  std::string entry(std::string_view name) const {
    std::string out = fmt::format(
        "extern \"C\" void {}(const KernelArgs* args, long begin, long end) {{\n", name);
    out += at_.from_arguments();
    out += fmt::format("  const long width = sizes[{}];\n", lane());
    out += "  long at = begin % width, q = begin / width;\n";
    for (int32_t d = lane() - 1; d >= 0; --d)
      out += d ? fmt::format("  long i{0} = q % sizes[{0}];\n  q /= sizes[{0}];\n", d)
               : std::string("  long i0 = q;\n");
    out += "  while (begin < end) {\n";
    out += "    const long rest = end - begin;\n";
    out +=
        "    const long stop = width - at < rest ? width : at + rest;\n    begin += stop - at;\n";
    out +=
        fmt::format("    for (; at + {0} <= stop; at += {0}) {1}\n", lanes_, call("columns", "L"));
    out += "    if (at < stop) " + call("last_columns", "stop - at") + "\n    at = 0;\n";
    std::string closing;
    for (int32_t d = lane() - 1; d > 0; --d) {
      out += fmt::format("    if (++i{0} == sizes[{0}]) {{\n      i{0} = 0;\n", d);
      closing += "    }\n";
    }
    return out + (lane() > 0 ? "    ++i0;\n" : "") + closing + "  }\n}\n";
  }

  const LoopProgram& program_;
  CpuAccesses at_;
  int lanes_, vector_bytes_;
  Prelude prelude_;
  CpuBody body_;
  bool partial_ = false;
};

}  // namespace

std::string print_cpu_columns(const LoopProgram& program, std::string_view name, int vector_bytes) {
  return ColumnPrinter(program, vector_bytes).print(name);
}

}  // namespace fulgurite
