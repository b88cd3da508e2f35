#include "codegen/loops/print_cpu_columns.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

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
// Where the rows of memory are gone through once, in order: so many at a time, into accumulators of
// at most so many columns, which stay in the caches.
constexpr int kRows = 4;
constexpr int kSwept = 4096;
constexpr int kRowsPerTotal = 64;
static_assert(kRowsPerTotal % kRows == 0);

class ColumnPrinter {
 public:
  ColumnPrinter(const LoopProgram& program, int vector_bytes)
      : program_(program),
        at_(program),
        vectors_(vectors_of(program, vector_bytes, kVectors)),
        prelude_(vectors_.sixteens(), vectors_.split),
        body_(program, prelude_) {
    prelude_.use("mask");
    for (size_t i = 0; i < at_.count(); ++i) use_type(prelude_, at_[i].dtype);
  }

  std::string print(std::string_view name) {
    sweeps_ = can_sweep();
    std::string code = sweeps_ ? sweep(false) : columns(false);
    code += sweeps_ ? sweep(true) : columns(true);
    code += entry(name);
    return text_of(program_, vectors_, prelude_, code);
  }

 private:
  using Numbers = std::vector<int32_t>;

  int32_t inner() const { return program_.rank() - 1; }
  int32_t lane() const { return program_.lane_dimension(); }
  c10::ScalarType dtype_of(const Reduction& r) const {
    return program_.statements[r.statement].dtype;
  }
  CpuBody::Context context(const char* pointer) const {
    return {.index = "", .pointer = pointer, .partial = partial_};
  }

  std::string signature() const {
    std::string out = fmt::format("static void {}columns(", partial_ ? "last_" : "");
    out += at_.parameters() + body_.parameters();
    return out + "const long* sizes, const long* strides, long at, long k) {\n";
  }

  // Reductions of one pass, of elements that differ from row to row.
  bool can_sweep() const {
    if (program_.reduced != 1 || body_.counts_lanes()) return false;
    for (int32_t i = 0; i < program_.statements.size(); ++i) {
      if (program_.statements[i].prim == Prim::Index) return false;
      if (body_.is_inner(i) && body_.is_costly(i)) return false;
    }
    Numbers reduced;
    for (const Reduction& r : program_.reductions) {
      reduced.push_back(r.statement);
      if (r.pass > 0 || r.sampled || r.kind == ReductionKind::MaximumNumber ||
          dtype_of(r) == c10::ScalarType::Bool || !body_.is_inner(r.statement))
        return false;
    }
    // What differs from column to column alone is read with the results, not before.
    for (int32_t i = 0; i < program_.statements.size(); ++i)
      if (is_of_column(i) && body_.needs(reduced, i)) return false;
    return std::ranges::all_of(program_.stores, [](const Store& s) { return s.per_row; });
  }

  bool is_of_column(int32_t i) const {
    const ScalarNode& node = program_.statements[i];
    if (node.prim != Prim::Load) return false;
    const Dims& strides = program_.loads[node.at].strides;
    return strides[inner()] == 0 && strides[lane()] != 0;
  }

  // The rows of k columns, a multiple of the lanes, or of the last k.
  std::string sweep(bool partial) {
    partial_ = partial;
    const int room = partial ? vectors_.lanes : kSwept;
    std::string arrays, clear, flush, ends, stores;
    for (size_t i = 0; i < program_.reductions.size(); ++i) {
      const Reduction& r = program_.reductions[i];
      const std::string identity = identity_of(prelude_, r.kind, dtype_of(r));
      arrays += fmt::format("  alignas(64) {} a{}[{}];\n", element_type(dtype_of(r)), i, room);
      clear += fmt::format("    store(a{} + i, {});\n", i, identity);
      std::string value = fmt::format("load(a{} + i)", i);
      if (has_total(r)) {
        const std::string type = vector_type(dtype_of(r));
        arrays += fmt::format("  alignas(64) {0} totals{1}[{2}], losts{1}[{2}];\n",
                              element_type(dtype_of(r)), i, room);
        clear += fmt::format("    store(totals{0} + i, {1}{{}}), store(losts{0} + i, {1}{{}});\n",
                             i, type);
        flush += fmt::format(
            "    {{\n    {0} total{1} = load(totals{1} + i), lost{1} = load(losts{1} + i);\n"
            "    {2}\n    store(totals{1} + i, total{1}), store(losts{1} + i, lost{1});\n"
            "    store(a{1} + i, {3});\n    }}\n",
            type, i, add_to_total(prelude_, static_cast<int32_t>(i), dtype_of(r), value), identity);
        value = fmt::format("load(totals{0} + i) - load(losts{0} + i)", i);
      }
      ends += fmt::format("    const {} r{} = {};\n", vector_type(dtype_of(r)), i, value);
    }
    for (size_t s = 0; s < program_.stores.size(); ++s) {
      const size_t i = at_.first_store() + s;
      ends += fmt::format("    {} q{} = y{} + i{};\n", at_.pointer_type(i), s, s,
                          at_.is_strided(i) ? fmt::format(" * s{}", i) : "");
      stores += stored(s, "q");
    }
    const std::string columns =
        fmt::format("  for (long i = 0; i < {}; i += L) {{\n", partial ? "L" : "k");
    std::string out = signature();
    out += fmt::format("  const long n = sizes[{}], count = n, sample = 0;\n", inner());
    out += arrays + body_.row_statements(-1, context("x")) + columns + clear + "  }\n";
    out += "  for (long row = 0; row < n;) {\n";
    out += fmt::format("  const long end = n - row < {0} ? n : row + {0};\n", kRowsPerTotal);
    out += fmt::format("  for (; row + {0} <= end; row += {0}) {{\n", kRows);
    out += pointers_of_rows(kRows) + columns + swept_rows(kRows) + "  }\n  }\n";
    out += "  for (; row < end; row++) {\n" + pointers_of_rows(1) + columns + swept_rows(1);
    out += "  }\n  }\n";
    if (!flush.empty()) out += columns + flush + "  }\n";
    const CpuBody::Context at_column{.index = "i", .pointer = "x", .partial = partial};
    out += "  }\n" + columns + body_.row_statements(-1, at_column) + ends;
    out += body_.row_statements(0, at_column) + stores;
    return out + "  }\n}\n";
  }

  std::string pointers_of_rows(int rows) const {
    std::string out;
    for (int u = 0; u < rows; ++u)
      for (size_t i = 0; i < at_.first_store(); ++i)
        out += fmt::format("  {0} p{1}_{2} = x{2} + (row + {1}) * {3};\n", at_.pointer_type(i), u,
                           i, at_.stride_text(i, inner()));
    return out;
  }

  // So many rows, put together in pairs, to the accumulators.
  std::string swept_rows(int rows) {
    Numbers roots;
    for (const Reduction& r : program_.reductions) roots.push_back(r.statement);
    std::string out;
    for (int u = 0; u < rows; ++u) {
      std::string values;
      for (size_t i = 0; i < roots.size(); ++i) {
        out += fmt::format("    {} v{}_{};\n", vector_type(dtype_of(program_.reductions[i])), i, u);
        values += fmt::format("    v{}_{} = t{};\n", i, u, roots[i]);
      }
      const CpuBody::Context read{
          .index = "i", .pointer = fmt::format("p{}_", u), .partial = partial_};
      out += "    {\n" + body_.inner_statements(roots, read) + values + "    }\n";
    }
    for (size_t i = 0; i < roots.size(); ++i) {
      const Reduction& r = program_.reductions[i];
      const auto both = [&](const std::string& a, const std::string& b) {
        return fmt::format("({})", combined(prelude_, r.kind, dtype_of(r), a, b));
      };
      std::vector<std::string> sums;
      for (int u = 0; u < rows; ++u) sums.push_back(fmt::format("v{}_{}", i, u));
      for (size_t apart = 1; apart < sums.size(); apart *= 2)
        for (size_t u = 0; u + apart < sums.size(); u += 2 * apart)
          sums[u] = both(sums[u], sums[u + apart]);
      out += fmt::format("    store(a{0} + i, {1});\n", i,
                         both(fmt::format("load(a{} + i)", i), sums[0]));
    }
    return out;
  }

  // All rows of as many columns as there are lanes, or of the last k.
  std::string columns(bool partial) {
    partial_ = partial;
    std::string out = signature();
    out += fmt::format("  const long n = sizes[{}], count = n", inner());
    for (int32_t d = program_.kept(); d < inner(); ++d) out += fmt::format(" * sizes[{}]", d);
    // At intervals that rows made of equal parts hardly have, too.
    out += fmt::format(
        ";\n  const long sample = n < {0} ? n : {0}, apart = n < 67 ? 1 : n / 67;\n"
        "  const long start = (n - 1 - (sample - 1) * apart) / 2;\n",
        kSampled);
    out += body_.begin_checks() + body_.row_statements(-1, context("x"));
    int32_t passes = 0;
    for (const Reduction& r : program_.reductions) passes = std::max(passes, r.pass + 1);
    for (int32_t pass = 0; pass < passes; ++pass) out += reductions(pass);
    return out + stores() + body_.end_checks() + "}\n";
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
    if (!sampled && body_.checks_in(program_.reductions[numbers.front()].pass))
      std::ranges::copy(body_.inner_checks(), std::back_inserter(roots));
    if (!flush.empty()) {
      start += fmt::format("  long added{} = 0;\n", numbers.front());
      flush = fmt::format("    if (++added{} % {} == 0) {{\n{}    }}\n", numbers.front(),
                          kElementsPerTotal, flush);
    }
    return start + open_loops(sampled) + body_.inner_statements(roots, context("p")) + step +
           flush + close_loops(sampled) + end;
  }

  // Over all reduced dimensions, or over a sample of the innermost's elements.
  std::string open_loops(bool sampled) const {
    std::string out = has_first(sampled) ? "  {\n" : "";
    for (int32_t d = program_.kept(); d <= inner(); ++d) {
      const bool first = sampled && d < inner();
      if (first)
        out += fmt::format("  const long i{} = 0;\n", d);
      else if (sampled)
        out += fmt::format(
            "  for (long i{0} = start; i{0} < start + sample * apart; i{0} += apart) {{\n", d);
      else
        out += fmt::format("  for (long i{0} = 0; i{0} < sizes[{0}]; i{0}++) {{\n", d);
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
    std::string out = has_first(sampled) ? "  }\n" : "";
    for (int32_t d = 0; d < (sampled ? 1 : program_.reduced); ++d) out += "  }\n";
    return out;
  }
  // Whether the outer loops are at their first elements, by names of a block of its own.
  bool has_first(bool sampled) const { return sampled && program_.reduced > 1; }

  std::string stores() {
    Numbers roots;
    std::string once, each;
    for (size_t s = 0; s < program_.stores.size(); ++s) {
      const Store& store = program_.stores[s];
      (store.per_row ? once : each) += stored(s, store.per_row ? "y" : "q");
      if (!store.per_row) roots.push_back(store.statement);
    }
    if (roots.empty()) return once;
    std::ranges::copy(body_.inner_checks(), std::back_inserter(roots));
    return body_.begin_running() + open_loops(false) + body_.inner_statements(roots, context("p")) +
           each + close_loops(false) + once;
  }

  std::string stored(size_t s, std::string_view before) {
    const Store& store = program_.stores[s];
    const size_t i = at_.first_store() + s;
    const std::string value = body_.in_memory_type(store.statement, store.access.dtype);
    const std::string pointer = fmt::format("{}{}", before, s);
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
    return out + body_.arguments() + fmt::format("sizes, strides, at, {});", k);
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
    out += fmt::format(
        "    for (long k; at + L <= stop; at += k) {{\n      k = {};\n      {}\n    }}\n",
        sweeps_ ? fmt::format("(stop - at < {0} ? stop - at : {0}) & -L", kSwept) : "L",
        call("columns", "k"));
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
  CpuVectors vectors_;
  Prelude prelude_;
  CpuBody body_;
  bool partial_ = false, sweeps_ = false;
};

}  // namespace

std::string print_cpu_columns(const LoopProgram& program, std::string_view name, int vector_bytes) {
  return ColumnPrinter(program, vector_bytes).print(name);
}

}  // namespace fulgurite
