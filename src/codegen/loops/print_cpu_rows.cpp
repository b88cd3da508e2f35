#include "codegen/loops/print_cpu_rows.h"

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

// Accumulators of one reduction, each a vector: additions take four cycles. The text has as many
// copies of what is added; of what takes long itself, two are enough.
constexpr int kAccumulators = 4;
constexpr int kAccumulatorsOfCostly = 2;
// After so many vectors each, sums go to a total: the error grows with the number of addends.
constexpr int kVectorsPerTotal = 16;

class RowPrinter {
 public:
  RowPrinter(const LoopProgram& program, int vector_bytes)
      : program_(program),
        at_(program),
        lanes_(lanes_of(program, vector_bytes)),
        vector_bytes_(vector_bytes),
        prelude_(vector_bytes, lanes_),
        body_(program, prelude_) {
    prelude_.use("mask");
    prelude_.use("first_lanes");
    for (size_t i = 0; i < at_.count(); ++i) use_type(prelude_, at_[i].dtype);
  }

  std::string print(std::string_view name) {
    require(!body_.any_gather(), "a reduction of gathered elements");
    const std::string rows = row(), kernel = entry(name);
    std::string text = fmt::format("// {}\n", fmt::join(program_.operators, ", "));
    text += head_of_text(lanes_, vector_bytes_);
    return text + prelude_.text() + "\n" + rows + kernel;
  }

 private:
  using Numbers = std::vector<int32_t>;

  int32_t kept() const { return program_.rank() - program_.reduced; }
  int32_t inner() const { return program_.rank() - 1; }
  bool nested() const { return program_.reduced > 1; }

  c10::ScalarType dtype_of(const Reduction& reduction) const {
    return program_.statements[reduction.statement].dtype;
  }

  std::string parameters() const {
    std::string out = at_.parameters();
    for (int32_t d : body_.outer_indices()) out += fmt::format("long i{}, ", d);
    return out + "const long* sizes, const long* strides, bool streaming";
  }

  std::string row() {
    std::string out = fmt::format("static void row({}) {{\n", parameters());
    out += fmt::format("  const long n = sizes[{}], at = 0;\n  const long count = n", inner());
    for (int32_t d = kept(); d < inner(); ++d) out += fmt::format(" * sizes[{}]", d);
    out += fmt::format(";\n  const long sample = n < {0} ? n : {0};\n", kSampled);
    out += body_.row_statements(-1, {});
    int32_t passes = 0;
    for (const Reduction& r : program_.reductions) passes = std::max(passes, r.pass + 1);
    find_kept(passes - 1);
    for (int32_t pass = 0; pass < passes; ++pass) out += reductions(pass);
    return out + stores() + "}\n";
  }

  // A costly statement of the last pass that the results need and nothing else of a place: it goes
  // into the memory of a result, and is read there again.
  void find_kept(int32_t last_pass) {
    Numbers roots, stores, reduced;
    for (size_t s = 0; s < program_.stores.size(); ++s) {
      if (program_.stores[s].per_row) continue;
      roots.push_back(program_.stores[s].statement);
      if (at_.stride(at_.first_store() + s) == 1 &&
          program_.stores[s].access.dtype == c10::ScalarType::Float)
        stores.push_back(static_cast<int32_t>(s));
    }
    if (nested() || stores.empty()) return;
    for (const Reduction& r : program_.reductions)
      if (r.pass == last_pass && !r.sampled) reduced.push_back(r.statement);
    for (int32_t i = 0; i < program_.statements.size(); ++i) {
      if (program_.statements[i].dtype != c10::ScalarType::Float || !body_.is_inner(i) ||
          !body_.is_costly(i) || !body_.need_only(roots, i) || !body_.needs(reduced, i))
        continue;
      kept_statement_ = i;
      kept_store_ = stores.front();
      kept_pass_ = last_pass;
    }
  }

  std::string keep(int32_t pass, std::string_view index, bool partial) {
    if (pass != kept_pass_) return "";
    if (!partial)
      return fmt::format("    store(y{} + {}, t{});\n", kept_store_, index, kept_statement_);
    prelude_.use("store_part");
    return fmt::format("    store_part(y{} + {}, 1, t{}, k);\n", kept_store_, index,
                       kept_statement_);
  }

  // Of the places where results are written.
  CpuBody::Context final_context(bool partial) {
    CpuBody::Context made = context("i", partial);
    if (kept_pass_ < 0) return made;
    if (partial) prelude_.use("load_part");
    made.given[kept_statement_] =
        partial ? fmt::format("load_part((const float*)y{} + i, 1, k)", kept_store_)
                : fmt::format("load(y{} + i)", kept_store_);
    return made;
  }

  // One pass: accumulators, the loops, the results and what follows from them.
  std::string reductions(int32_t pass) {
    Numbers whole, sampled;
    for (int32_t i = 0; i < static_cast<int32_t>(program_.reductions.size()); ++i)
      if (program_.reductions[i].pass == pass)
        (program_.reductions[i].sampled ? sampled : whole).push_back(i);
    std::string out;
    if (!sampled.empty()) out += sample_pass(sampled);
    if (!whole.empty()) out += whole_pass(whole, pass);
    for (int32_t i : sampled) out += result(i, 1);
    for (int32_t i : whole) out += result(i, unrolled(whole));
    return out + body_.row_statements(pass, {});
  }

  int unrolled(const Numbers& numbers) const {
    for (int32_t i = 0; i < program_.statements.size(); ++i)
      if (body_.is_costly(i) && body_.is_inner(i) && body_.needs(statements_of(numbers), i))
        return kAccumulatorsOfCostly;
    return numbers.size() > 3 ? kAccumulatorsOfCostly : kAccumulators;
  }

  std::string result(int32_t i, int accumulators) {
    const Reduction& r = program_.reductions[i];
    std::string sum = fmt::format("a{}_0", i);
    for (int u = 1; u < accumulators; ++u)
      sum = combined(prelude_, r.kind, dtype_of(r), sum, fmt::format("a{}_{}", i, u));
    if (has_total(r)) sum = fmt::format("{} + ({})", total_of(i), sum);
    return fmt::format("  const {} r{} = {};\n", vector_type(dtype_of(r)), i,
                       across_lanes(prelude_, r.kind, dtype_of(r), lanes_, sum));
  }

  bool has_total(const Reduction& r) const {
    return r.kind == ReductionKind::Sum && !r.sampled && c10::isFloatingType(dtype_of(r));
  }

  std::string accumulators(const Numbers& numbers, int count) {
    std::string out;
    for (int32_t i : numbers) {
      const Reduction& r = program_.reductions[i];
      const std::string type = vector_type(dtype_of(r));
      const std::string identity = identity_of(prelude_, r.kind, dtype_of(r));
      for (int u = 0; u < count; ++u)
        out += fmt::format("  {} a{}_{} = {};\n", type, i, u, identity);
      if (has_total(r)) out += total_declared(i, dtype_of(r));
    }
    return out;
  }

  Numbers statements_of(const Numbers& reductions) const {
    Numbers all;
    for (int32_t i : reductions) all.push_back(program_.reductions[i].statement);
    return all;
  }

  std::string accumulate(const Numbers& numbers, std::string_view slot, bool partial) {
    std::string out;
    for (int32_t i : numbers) {
      const Reduction& r = program_.reductions[i];
      std::string value = fmt::format("t{}", r.statement);
      if (partial)
        value = fmt::format("{}(first_lanes(k), {}, {})", use_select(prelude_, dtype_of(r)), value,
                            identity_of(prelude_, r.kind, dtype_of(r)));
      const std::string accumulator = fmt::format("a{}_{}", i, slot);
      out += fmt::format("    {} = {};\n", accumulator,
                         combined(prelude_, r.kind, dtype_of(r), accumulator, value));
    }
    return out;
  }

  CpuBody::Context context(std::string index, bool partial) const {
    return {std::move(index), nested() ? "p" : "x", partial};
  }

  std::string sample_pass(const Numbers& numbers) {
    std::string out = accumulators(numbers, 1);
    if (nested()) out += pointers(true);
    out += fmt::format("  for (long i = 0; i < sample; i += {}) {{\n", lanes_);
    out += remaining("sample");
    out += body_.inner_statements(statements_of(numbers), context("i", true));
    return out + accumulate(numbers, "0", true) + "  }\n" + (nested() ? "  }\n" : "");
  }

  std::string remaining(std::string_view end) const {
    return fmt::format("    const long k = {0} - i < {1} ? {0} - i : {1};\n", end, lanes_);
  }

  std::string whole_pass(const Numbers& numbers, int32_t pass) {
    const int unroll = unrolled(numbers);
    const int step = unroll * lanes_;
    const Numbers roots = statements_of(numbers);
    std::string out = accumulators(numbers, unroll);
    if (nested()) out += fmt::format("  [[maybe_unused]] long rows{} = 0;\n", numbers.front());
    out += open_loops();
    out += fmt::format("  long i = 0;\n  while (i + {} <= n) {{\n", step);
    out +=
        fmt::format("  const long block = n - i < {0} ? n : i + {0};\n", step * kVectorsPerTotal);
    out += fmt::format("  for (; i + {} <= block; i += {}) {{\n", step, step);
    for (int u = 0; u < unroll; ++u) {
      out += fmt::format("  {{\n    const long j = i + {};\n", lanes_ * u);
      out += body_.inner_statements(roots, context("j", false)) + keep(pass, "j", false);
      out += accumulate(numbers, std::to_string(u), false) + "  }\n";
    }
    out += "  }\n" + totals(numbers, unroll) + "  }\n";
    out += fmt::format("  for (; i < n; i += {}) {{\n", lanes_) + remaining("n");
    out += body_.inner_statements(roots, context("i", true)) + keep(pass, "i", true);
    out += accumulate(numbers, "0", true) + "  }\n";
    // Short rows of a nest fill no block: they have up to `unroll` vectors each.
    if (const std::string rest = totals(numbers, unroll); nested() && !rest.empty())
      out += fmt::format("  if (++rows{} % {} == 0) {{\n{}  }}\n", numbers.front(),
                         kVectorsPerTotal / unroll, rest);
    return out + close_loops();
  }

  std::string totals(const Numbers& numbers, int count) {
    std::string out;
    for (int32_t i : numbers) {
      if (!has_total(program_.reductions[i])) continue;
      std::string sum = fmt::format("a{}_0", i), clear;
      for (int u = 0; u < count; ++u) {
        if (u) sum = fmt::format("({} + a{}_{})", sum, i, u);
        clear += fmt::format("a{}_{} = ", i, u);
      }
      const c10::ScalarType dtype = dtype_of(program_.reductions[i]);
      out += fmt::format("  {}\n  {}{};\n", add_to_total(prelude_, i, dtype, sum), clear,
                         identity_of(prelude_, ReductionKind::Sum, dtype));
    }
    return out;
  }

  // Loops over the reduced dimensions but the innermost, with pointers p0, p1, ... and q0, q1, ...
  std::string open_loops() const {
    if (!nested()) return "  {\n";
    std::string out;
    for (int32_t d = kept(); d < inner(); ++d)
      out += fmt::format("  for (long i{0} = 0; i{0} < sizes[{0}]; i{0}++) {{\n", d);
    return out + pointers(false);
  }
  std::string close_loops() const {
    std::string out;
    for (int32_t d = 0; d < std::max(1, program_.reduced - 1); ++d) out += "  }\n";
    return out;
  }
  std::string pointers(bool first) const {
    std::string out = first ? "  {\n" : "";
    if (first)
      for (int32_t d = kept(); d < inner(); ++d) out += fmt::format("  const long i{} = 0;\n", d);
    for (size_t i = 0; i < at_.count(); ++i) {
      std::string place = at_.pointer(i);
      if (!first)
        for (int32_t d = kept(); d < inner(); ++d)
          place += fmt::format(" + i{} * {}", d, at_.stride_text(i, d));
      out += fmt::format("  {} {}{} = {};\n", at_.pointer_type(i), at_.is_store(i) ? "q" : "p",
                         at_.is_store(i) ? i - at_.first_store() : i, place);
    }
    return out;
  }

  std::string stores() {
    Numbers roots;
    std::string once, full, part;
    for (size_t s = 0; s < program_.stores.size(); ++s) {
      const Store& store = program_.stores[s];
      const std::string value = body_.in_memory_type(store.statement, store.access.dtype);
      if (store.per_row) {
        prelude_.use("store_one");
        once += fmt::format("  store_one(y{}, {});\n", s, value);
        continue;
      }
      roots.push_back(store.statement);
      full += store_text(s, value, false);
      part += store_text(s, value, true);
    }
    if (roots.empty()) return once;
    std::string out = open_loops();
    out += "  long i = 0;\n" + streaming_stores(roots);
    out += fmt::format("  for (; i + {0} <= n; i += {0}) {{\n", lanes_);
    out += body_.inner_statements(roots, final_context(false)) + full + "  }\n";
    out += "  if (i < n) {\n    const long k = n - i;\n";
    out += body_.inner_statements(roots, final_context(true)) + part + "  }\n" + close_loops();
    return out + once;
  }

  // A loop for results that are not to stay in the caches: worth it where memory is what bounds the
  // row, and possible where whole vectors lie side by side.
  std::string streaming_stores(const Numbers& roots) {
    if (nested() || body_.is_costly()) return "";
    std::string aligned = "streaming", written;
    for (size_t s = 0; s < program_.stores.size(); ++s) {
      const Store& store = program_.stores[s];
      if (store.per_row) continue;
      if (store.access.dtype != c10::ScalarType::Float || at_.stride(at_.first_store() + s) != 1)
        return "";
      aligned += fmt::format(" && !((long)y{} & {})", s, vector_bytes_ - 1);
      written += fmt::format("    __builtin_nontemporal_store({}, (f32v*)(y{} + i));\n",
                             body_.in_memory_type(store.statement, store.access.dtype), s);
    }
    return fmt::format("  if ({})\n  for (; i + {} <= n; i += {}) {{\n{}{}  }}\n", aligned, lanes_,
                       lanes_, body_.inner_statements(roots, context("i", false)), written);
  }

  std::string store_text(size_t s, const std::string& value, bool partial) {
    const size_t i = at_.first_store() + s;
    const std::string pointer = fmt::format("{}{}", nested() ? "q" : "y", s);
    const bool strided = at_.is_strided(i);
    const std::string step = strided ? fmt::format("s{}", i) : "1";
    const std::string place = pointer + " + i" + (strided ? " * " + step : "");
    if (partial) {
      prelude_.use("store_part");
      return fmt::format("    store_part({}, {}, {}, k);\n", place, step, value);
    }
    if (!strided) return fmt::format("    store({}, {});\n", place, value);
    prelude_.use("strided_store");
    return fmt::format("    store({}, {}, {});\n", place, step, value);
  }

  std::string call_of_row() const {
    std::string out = "row(";
    for (size_t i = 0; i < at_.count(); ++i) {
      out += at_.pointer(i);
      for (int32_t d = 0; d < kept(); ++d)
        out += fmt::format(" + i{} * {}", d, at_.stride_text(i, d));
      out += ", ";
      if (at_.is_strided(i)) out += fmt::format("s{}, ", i);
    }
    for (int32_t d : body_.outer_indices()) out += fmt::format("i{}, ", d);
    return out + "sizes, strides, args->streaming);";
  }

  std::string entry(std::string_view name) const {
    std::string out = fmt::format(
        "extern \"C\" void {}(const KernelArgs* args, long begin, long end) {{\n", name);
    out += at_.from_arguments();
    if (kept() == 0) return out + "  if (begin < end) " + call_of_row() + "\n}\n";
    out += "  long q = begin;\n";
    for (int32_t d = kept() - 1; d > 0; --d)
      out += fmt::format("  long i{0} = q % sizes[{0}];\n  q /= sizes[{0}];\n", d);
    out += "  long i0 = q;\n  for (; begin < end; begin++) {\n    " + call_of_row() + "\n";
    std::string closing;
    for (int32_t d = kept() - 1; d > 0; --d) {
      out += fmt::format("    if (++i{0} == sizes[{0}]) {{\n      i{0} = 0;\n", d);
      closing += "    }\n";
    }
    return out + "    ++i0;\n" + closing + "  }\n}\n";
  }

  const LoopProgram& program_;
  CpuAccesses at_;
  int lanes_, vector_bytes_;
  Prelude prelude_;
  CpuBody body_;
  int32_t kept_statement_ = -1, kept_store_ = -1, kept_pass_ = -1;
};

}  // namespace

std::string print_cpu_rows(const LoopProgram& program, std::string_view name, int vector_bytes) {
  return RowPrinter(program, vector_bytes).print(name);
}

}  // namespace fulgurite
