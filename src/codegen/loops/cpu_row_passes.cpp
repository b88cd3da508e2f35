#include "codegen/loops/cpu_row_passes.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/loops/cpu_reductions.h"

namespace fulgurite {
namespace {

// Accumulators of one reduction, each a vector: additions take four cycles. The text has as many
// copies of what is added; of what takes long itself, two are enough.
constexpr int kAccumulators = 4;
constexpr int kAccumulatorsOfCostly = 2;
// After so many vectors each, sums go to a total: the error grows with the number of addends.
constexpr int kVectorsPerTotal = 16;

}  // namespace

int32_t CpuRowPasses::passes() const {
  int32_t passes = 0;
  for (const Reduction& r : program_.reductions) passes = std::max(passes, r.pass + 1);
  return passes;
}

CpuRowPasses::Numbers CpuRowPasses::reductions(int32_t pass, bool sampled) const {
  Numbers found;
  for (int32_t i = 0; i < static_cast<int32_t>(program_.reductions.size()); ++i)
    if (program_.reductions[i].pass == pass && program_.reductions[i].sampled == sampled)
      found.push_back(i);
  return found;
}

CpuRowPasses::Numbers CpuRowPasses::statements_of(const Numbers& reductions) const {
  Numbers all;
  for (int32_t i : reductions) all.push_back(program_.reductions[i].statement);
  return all;
}

CpuRowPasses::Numbers CpuRowPasses::roots(const Numbers& reductions, int32_t pass) const {
  Numbers all = statements_of(reductions);
  if (body_.checks_in(pass)) std::ranges::copy(body_.inner_checks(), std::back_inserter(all));
  return all;
}

bool CpuRowPasses::has_total(const Reduction& r) const {
  return r.kind == ReductionKind::Sum && !r.sampled && c10::isFloatingType(dtype_of(r));
}

int CpuRowPasses::unrolled(const Numbers& numbers) const {
  for (int32_t i = 0; i < program_.statements.size(); ++i)
    if (body_.is_costly(i) && body_.is_inner(i) && body_.needs(statements_of(numbers), i))
      return kAccumulatorsOfCostly;
  return numbers.size() > 3 ? kAccumulatorsOfCostly : kAccumulators;
}

CpuBody::Context CpuRowPasses::context(std::string index, bool partial) const {
  return {.index = std::move(index), .pointer = nested() ? "p" : "x", .partial = partial};
}

std::string CpuRowPasses::counts() const {
  const int32_t inner = program_.rank() - 1;
  std::string out =
      fmt::format("  const long n = sizes[{}], at = 0;\n  const long count = n", inner);
  for (int32_t d = program_.kept(); d < inner; ++d) out += fmt::format(" * sizes[{}]", d);
  return out + fmt::format(";\n  const long sample = n < {0} ? n : {0};\n", kSampled);
}

std::string CpuRowPasses::accumulators(const Numbers& numbers, int count) {
  std::string out;
  for (int32_t i : numbers) {
    const Reduction& r = program_.reductions[i];
    const std::string type = vector_type(dtype_of(r));
    const std::string identity = identity_of(prelude_, r.kind, dtype_of(r));
    for (int u = 0; u < count; ++u) out += fmt::format("  {} a{}_{} = {};\n", type, i, u, identity);
    if (has_total(r)) out += total_declared(i, dtype_of(r));
  }
  return out;
}

std::string CpuRowPasses::accumulate(const Numbers& numbers, std::string_view slot, bool partial) {
  std::string out;
  for (int32_t i : numbers) {
    const Reduction& r = program_.reductions[i];
    const ScalarNode& reduced = program_.statements[r.statement];
    const std::string accumulator = fmt::format("a{}_{}", i, slot);
    std::string value = fmt::format("t{}", r.statement);
    if (partial)
      value = fmt::format("{}(first_lanes(k), {}, {})", use_select(prelude_, dtype_of(r)), value,
                          identity_of(prelude_, r.kind, dtype_of(r)));
    std::string sum = combined(prelude_, r.kind, dtype_of(r), accumulator, value);
    // And rounded once; what is the same for all elements is computed before.
    const bool is_product = reduced.prim == Prim::Mul && body_.is_inner(r.statement);
    if (!partial && has_total(r) && is_product)
      sum = fmt::format("FMA(t{}, t{}, {})", reduced.args[0], reduced.args[1], accumulator);
    out += fmt::format("    {} = {};\n", accumulator, sum);
  }
  return out;
}

std::string CpuRowPasses::totals(const Numbers& numbers, int count) {
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

// `of`: before the names of accumulators.
std::string CpuRowPasses::result(int32_t i, int accumulators, std::string_view of) {
  const Reduction& r = program_.reductions[i];
  std::string sum = fmt::format("{}a{}_0", of, i);
  for (int u = 1; u < accumulators; ++u)
    sum = combined(prelude_, r.kind, dtype_of(r), sum, fmt::format("{}a{}_{}", of, i, u));
  if (has_total(r)) sum = fmt::format("{} + ({})", total_of(i, of), sum);
  return across_lanes(prelude_, r.kind, dtype_of(r), lanes_, sum);
}

std::string CpuRowPasses::sample_loop(const Numbers& numbers) {
  std::string out = accumulators(numbers, 1);
  if (nested()) out += pointers(true);
  const Numbers roots = statements_of(numbers);
  out += fmt::format("  if (n >= {0}) {{\n", kSampled) + body_.sample_count();
  // At intervals that rows made of equal parts hardly have, too.
  const int64_t vectors = kSampled / lanes_;
  out += fmt::format(
      "  const long apart = (n < 67 ? 1 : n / 67) * {0}, start = (n - {1} * apart - {0}) / 2;\n"
      "  for (long i = start; i < start + {2} * apart; i += apart) {{\n",
      lanes_, vectors - 1, vectors);
  out += body_.inner_statements(roots, context("i", false)) + accumulate(numbers, "0", false);
  out += fmt::format(
      "  }}\n  }} else {{\n  for (long i = 0; i < sample; i += {0}) {{\n"
      "    const long k = sample - i < {0} ? sample - i : {0};\n",
      lanes_);
  out += body_.inner_statements(roots, context("i", true));
  return out + accumulate(numbers, "0", true) + "  }\n  }\n" + (nested() ? "  }\n" : "");
}

std::string CpuRowPasses::blocks(int vectors, const std::string& step,
                                 const std::string& totals) const {
  const int length = vectors * lanes_;
  std::string out = fmt::format("  while (i + {} <= n) {{\n", length);
  out +=
      fmt::format("  const bool full = n - i >= {0};\n  const long block = full ? i + {0} : n;\n",
                  length * kVectorsPerTotal);
  out += fmt::format("  for (; i + {0} <= block; i += {0}) {{\n", length);
  out += step + "  }\n";
  return out + (totals.empty() ? "  }\n" : fmt::format("  if (full) {{\n{}  }}\n  }}\n", totals));
}

std::string CpuRowPasses::step(const Numbers& numbers, int32_t pass, int vectors) {
  std::string out;
  for (int u = 0; u < vectors; ++u) {
    out += fmt::format("  {{\n    const long j = i + {};\n", lanes_ * u);
    out += body_.inner_statements(roots(numbers, pass), context("j", false));
    out += keep(pass, "j", false) + accumulate(numbers, std::to_string(u), false) + "  }\n";
  }
  return out;
}

std::string CpuRowPasses::rest(const Numbers& numbers, int32_t pass) {
  std::string out = fmt::format(
      "  for (; i < n; i += {0}) {{\n"
      "    const long k = n - i < {0} ? n - i : {0};\n",
      lanes_);
  out += body_.inner_statements(roots(numbers, pass), context("i", true));
  return out + keep(pass, "i", true) + accumulate(numbers, "0", true) + "  }\n";
}

std::string CpuRowPasses::pass(int32_t pass) {
  const Numbers sampled = reductions(pass, true), whole = reductions(pass, false);
  const int vectors = unrolled(whole);
  std::string out;
  if (!sampled.empty()) out += sample_loop(sampled);
  if (!whole.empty()) {
    const std::string flush = totals(whole, vectors);
    const bool counts = nested() && !flush.empty();
    out += accumulators(whole, vectors);
    if (counts) out += fmt::format("  long added{} = 0;\n", whole.front());
    out += open_loops() + "  long i = 0;\n";
    out += blocks(vectors, step(whole, pass, vectors), flush) + rest(whole, pass);
    // Short rows of a nest fill no block.
    if (counts)
      out += fmt::format("  if ((added{0} += n / {1} + {4}) >= {2}) {{\n  added{0} = 0;\n{3}  }}\n",
                         whole.front(), vectors * lanes_, kVectorsPerTotal, flush, vectors);
    out += close_loops();
  }
  for (const Numbers* numbers : {&sampled, &whole})
    for (int32_t i : *numbers)
      out += fmt::format("  const {} r{} = {};\n", vector_type(dtype_of(program_.reductions[i])), i,
                         result(i, numbers == &sampled ? 1 : vectors, ""));
  return out + body_.row_statements(pass, {});
}

// Kept statements.

void CpuRowPasses::find_kept() {
  const int32_t last = passes() - 1;
  Numbers roots, stores;
  for (size_t s = 0; s < program_.stores.size(); ++s) {
    if (program_.stores[s].per_row) continue;
    roots.push_back(program_.stores[s].statement);
    if (at_.stride(at_.first_store() + s) == 1 &&
        program_.stores[s].access.dtype == c10::ScalarType::Float)
      stores.push_back(static_cast<int32_t>(s));
  }
  if (nested() || roots.empty()) return;
  const Numbers reduced = statements_of(reductions(last, false));
  for (int32_t i = 0; i < program_.statements.size(); ++i) {
    if (program_.statements[i].dtype != c10::ScalarType::Float || !body_.is_inner(i) ||
        !body_.is_costly(i) || !body_.needs(roots, i) || !body_.needs(reduced, i))
      continue;
    kept_statement_ = i;
    kept_store_ = stores.empty() || !body_.need_only(roots, i) ? -1 : stores.front();
    kept_pass_ = last;
  }
}

std::string CpuRowPasses::keep(int32_t pass, std::string_view index, bool partial) {
  if (pass != kept_pass_) return "";
  if (kept_store_ < 0)
    return fmt::format("    *(f32v*)(kept + {}) = t{};\n", index, kept_statement_);
  if (!partial)
    return fmt::format("    store(y{} + {}, t{});\n", kept_store_, index, kept_statement_);
  prelude_.use("store_part");
  return fmt::format("    store_part(y{} + {}, 1, t{}, k);\n", kept_store_, index, kept_statement_);
}

CpuBody::Context CpuRowPasses::final_context(std::string index, bool partial) const {
  CpuBody::Context made = context(std::move(index), partial);
  if (kept_statement_ < 0) return made;
  std::string& value = made.given[kept_statement_];
  if (kept_store_ < 0)
    value = fmt::format("*(const f32v*)(kept + {})", made.index);
  else if (partial)
    value = fmt::format("load_part((const float*)y{} + {}, 1, k)", kept_store_, made.index);
  else
    value = fmt::format("load(y{} + {})", kept_store_, made.index);
  if (kept_store_ >= 0 && partial) prelude_.use("load_part");
  return made;
}

// Leads.

int32_t CpuRowPasses::lead_pass() const {
  int32_t first = passes();
  for (const Reduction& r : program_.reductions)
    if (!r.sampled) first = std::min(first, r.pass);
  return first;
}

bool CpuRowPasses::can_lead() const {
  if (nested() || program_.kept() == 0 || !body_.parameters().empty() || body_.counts_lanes())
    return false;
  const Numbers lead = reductions(lead_pass(), false);
  const bool writes =
      std::ranges::any_of(program_.stores, [](const Store& s) { return !s.per_row; });
  if (lead.empty() || !writes) return false;
  for (int32_t i = 0; i < program_.statements.size(); ++i)
    if (body_.is_costly(i) && body_.is_inner(i) && body_.needs(statements_of(lead), i))
      return false;
  return true;
}

std::string CpuRowPasses::lead_type() {
  const int32_t last = lead_pass();
  const Numbers whole = reductions(last, false), roots = statements_of(whole);
  const std::string loads = at_.parameters_of_loads();
  const std::string constants = body_.constants(roots);
  std::string members, start = body_.row_statements(-1, {});
  for (int32_t pass = 0; pass <= last; ++pass) {
    const Numbers sampled = reductions(pass, true);
    if (!sampled.empty()) start += sample_loop(sampled);
    for (int32_t i : sampled) {
      const std::string type = vector_type(dtype_of(program_.reductions[i]));
      members += fmt::format("  {} r{};\n", type, i);
      start += fmt::format("  r{} = {};\n", i, result(i, 1, ""));
    }
    if (pass < last) start += body_.row_statements(pass, {});
  }
  for (int32_t i : body_.row_values(roots)) {
    members += fmt::format("  {} t{};\n", vector_type(program_.statements[i].dtype), i);
    start += fmt::format("  this->t{0} = t{0};\n", i);
  }
  for (int32_t i : whole) {
    const Reduction& r = program_.reductions[i];
    const std::string type = vector_type(dtype_of(r));
    std::string names = has_total(r) ? fmt::format("total{0}, lost{0}, ", i) : "";
    if (has_total(r)) start += fmt::format("  total{0} = lost{0} = {1}{{}};\n", i, type);
    for (int u = 0; u < kAccumulatorsOfLead; ++u) {
      names += fmt::format("{}a{}_{}", u ? ", " : "", i, u);
      start += fmt::format("  a{}_{} = {};\n", i, u, identity_of(prelude_, r.kind, dtype_of(r)));
    }
    members += fmt::format("  {} {};\n", type, names);
  }
  return fmt::format(R"(// The first passes of a row.
struct Lead {{
{0}
  INLINE void start({1}const long* sizes) {{
{2}{3}  }}
  INLINE void step({1}long i) {{
{4}{5}  }}
  INLINE void total() {{
{6}  }}
  INLINE void rest({1}long i, long n) {{
{4}{7}  }}
}};
)",
                     members, loads, counts(), start, constants,
                     step(whole, last, kAccumulatorsOfLead), totals(whole, kAccumulatorsOfLead),
                     rest(whole, last));
}

std::string CpuRowPasses::lead_results() {
  std::string out;
  for (int32_t pass = 0; pass <= lead_pass(); ++pass) {
    for (bool sampled : {true, false})
      for (int32_t i : reductions(pass, sampled)) {
        const std::string type = vector_type(dtype_of(program_.reductions[i]));
        out += fmt::format(
            "  const {} r{} = {};\n", type, i,
            sampled ? fmt::format("lead.r{}", i) : result(i, kAccumulatorsOfLead, "lead."));
      }
    out += body_.row_statements(pass, {});
  }
  return out;
}

// Reduced dimensions besides the innermost.

std::string CpuRowPasses::open_loops() const {
  if (!nested()) return "  {\n";
  std::string out;
  for (int32_t d = program_.kept(); d < program_.rank() - 1; ++d)
    out += fmt::format("  for (long i{0} = 0; i{0} < sizes[{0}]; i{0}++) {{\n", d);
  return out + pointers(false);
}

std::string CpuRowPasses::close_loops() const {
  std::string out;
  for (int32_t d = 0; d < std::max(1, program_.reduced - 1); ++d) out += "  }\n";
  return out;
}

std::string CpuRowPasses::pointers(bool first) const {
  const int32_t inner = program_.rank() - 1;
  std::string out = first ? "  {\n" : "";
  if (first)
    for (int32_t d = program_.kept(); d < inner; ++d)
      out += fmt::format("  const long i{} = 0;\n", d);
  for (size_t i = 0; i < at_.count(); ++i) {
    std::string place = at_.pointer(i);
    if (!first)
      for (int32_t d = program_.kept(); d < inner; ++d)
        place += fmt::format(" + i{} * {}", d, at_.stride_text(i, d));
    out += fmt::format("  {} {}{} = {};\n", at_.pointer_type(i), at_.is_store(i) ? "q" : "p",
                       at_.is_store(i) ? i - at_.first_store() : i, place);
  }
  return out;
}

}  // namespace fulgurite
