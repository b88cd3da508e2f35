#include "codegen/loops/print_cpu_rows.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "codegen/loops/cpu_access.h"
#include "codegen/loops/cpu_body.h"
#include "codegen/loops/cpu_row_passes.h"
#include "codegen/loops/cpu_types.h"

namespace fulgurite {
namespace {

// `row` goes through one row. Where it can it does the first passes of the next one while it
// writes: what waits for the sum of a row, and what waits for memory, then wait at the same time.
class RowPrinter {
 public:
  RowPrinter(const LoopProgram& program, int vector_bytes)
      : program_(program),
        at_(program),
        vectors_(vectors_of(program, vector_bytes)),
        lanes_(vectors_.lanes),
        prelude_(vectors_.sixteens(), vectors_.split),
        body_(program, prelude_),
        passes_(program, at_, vectors_, prelude_, body_) {
    prelude_.use("mask");
    prelude_.use("first_lanes");
    for (size_t i = 0; i < at_.count(); ++i) use_type(prelude_, at_[i].dtype);
  }

  std::string print(std::string_view name) {
    leads_ = passes_.can_lead();
    passes_.find_kept();
    if (passes_.has_scratch()) prelude_.use("scratch");
    std::string code = leads_ ? passes_.lead_type() + lead() : "";
    code += row();
    code += entry(name);
    return text_of(program_, vectors_, prelude_, code);
  }

 private:
  using Numbers = std::vector<int32_t>;

  int32_t kept() const { return program_.kept(); }

  std::string row() {
    std::string out = fmt::format("static {} row({}{}", leads_ ? "Lead" : "void", at_.parameters(),
                                  body_.parameters());
    if (leads_) out += "const Lead& lead, " + at_.parameters_of_loads("next_");
    if (passes_.has_scratch()) out += "float* kept, ";
    out += "const long* sizes, const long* strides, bool streaming) {\n";
    out += passes_.counts() + body_.begin_checks() + body_.row_statements(-1, {});
    if (leads_) out += passes_.lead_results();
    for (int32_t pass = leads_ ? passes_.lead_pass() + 1 : 0; pass < passes_.passes(); ++pass)
      out += passes_.pass(pass);
    return out + stores() + body_.end_checks() + "}\n";
  }

  // The first passes of a row alone.
  std::string lead() {
    std::string out =
        fmt::format("static __attribute__((noinline)) Lead lead_of({}const long* sizes) {{\n",
                    at_.parameters_of_loads());
    const std::string given = at_.arguments_of_loads();
    out += fmt::format("  const long n = sizes[{}];\n  Lead lead;\n", program_.rank() - 1);
    out += fmt::format("  lead.start({}sizes);\n  long i = 0;\n", given);
    out += passes_.blocks(passes_.lead_vectors(), fmt::format("  lead.step({}i);\n", given),
                          "  lead.total();\n");
    return out + fmt::format("  lead.rest({}i, n);\n  return lead;\n}}\n", given);
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
      full += store_text(s, value, "i", false);
      part += store_text(s, value, "i", true);
    }
    if (roots.empty()) return once;
    std::ranges::copy(body_.inner_checks(), std::back_inserter(roots));
    std::string out = once + body_.begin_running() + passes_.open_loops() + "  long i = 0;\n" +
                      streaming_stores(roots);
    if (leads_) out += leading_stores(roots);
    if (!leads_) {
      out += fmt::format("  for (; i + {0} <= n; i += {0}) {{\n", lanes_);
      out += body_.inner_statements(roots, passes_.final_context("i", false)) + full + "  }\n";
    }
    out += fmt::format(
        "  for (; i < n; i += {0}) {{\n    const long k = n - i < {0} ? n - i : {0};\n", lanes_);
    out += body_.inner_statements(roots, passes_.final_context("i", true)) + part + "  }\n";
    return out + (leads_ ? "  return next;\n" : "") + passes_.close_loops();
  }

  // Loads come before stores: a load waits for an earlier store to the same place of a page.
  std::string leading_stores(const Numbers& roots) {
    const std::string given = at_.arguments_of_loads("next_");
    std::string step, written;
    for (int u = 0; u < passes_.lead_vectors(); ++u) {
      std::string values;
      for (size_t s = 0; s < program_.stores.size(); ++s) {
        const Store& store = program_.stores[s];
        if (store.per_row) continue;
        const std::string name = fmt::format("v{}_{}", s, u);
        const auto dtype = computed_in(store.access.dtype);
        step += fmt::format("  {} {};\n", vector_type(dtype), name);
        values += fmt::format("    {} = {};\n", name,
                              body_.in_memory_type(store.statement, store.access.dtype));
        written += store_text(s, name, fmt::format("i + {}", u * lanes_), false);
      }
      step += fmt::format("  {{\n    const long j = i + {};\n", u * lanes_) +
              body_.inner_statements(roots, passes_.final_context("j", false)) + values + "  }\n";
    }
    std::string out = fmt::format("  Lead next;\n  next.start({}sizes);\n", given);
    out += passes_.blocks(passes_.lead_vectors(),
                          step + fmt::format("    next.step({}i);\n", given) + written,
                          "  next.total();\n");
    return out + fmt::format("  next.rest({}i, n);\n", given);
  }

  // A loop for results that are not to stay in the caches: worth it where memory is what bounds the
  // row, and possible where whole vectors lie side by side. Memory gives more if nothing is read
  // from it meanwhile: there is no lead.
  std::string streaming_stores(const Numbers& roots) {
    if (!program_.may_stream || passes_.nested() || body_.is_costly()) return "";
    std::string aligned = "streaming", written;
    for (size_t s = 0; s < program_.stores.size(); ++s) {
      const Store& store = program_.stores[s];
      if (store.per_row) continue;
      const auto dtype = store.access.dtype;
      if (!vectors_.can_stream(dtype) || at_.stride(at_.first_store() + s) != 1) return "";
      aligned += fmt::format(" && !((long)y{} & {})", s, vectors_.machine_bytes - 1);
      prelude_.use(fmt::format("{}_stream", vector_name(dtype)));
      written += fmt::format("    stream(y{} + i, {});\n", s,
                             body_.in_memory_type(store.statement, store.access.dtype));
    }
    if (leads_) aligned += fmt::format(" && n % {} == 0", lanes_);
    std::string out =
        fmt::format("  if ({}) {{\n  for (; i + {} <= n; i += {}) {{\n", aligned, lanes_, lanes_);
    out += body_.inner_statements(roots, passes_.context("i", false)) + written + "  }\n";
    if (leads_) out += fmt::format("  return lead_of({}sizes);\n", at_.arguments_of_loads("next_"));
    return out + "  }\n";
  }

  std::string store_text(size_t s, const std::string& value, const std::string& index,
                         bool partial) {
    const size_t i = at_.first_store() + s;
    const std::string pointer = fmt::format("{}{}", passes_.nested() ? "q" : "y", s);
    const bool strided = at_.is_strided(i);
    const std::string step = strided ? fmt::format("s{}", i) : "1";
    const std::string place = strided ? fmt::format("{} + ({}) * {}", pointer, index, step)
                                      : fmt::format("{} + {}", pointer, index);
    if (partial) {
      prelude_.use("store_part");
      return fmt::format("    store_part({}, {}, {}, k);\n", place, step, value);
    }
    if (!strided) return fmt::format("    store({}, {});\n", place, value);
    prelude_.use("strided_store");
    return fmt::format("    store({}, {}, {});\n", place, step, value);
  }

  // The pointers (and strides) of the current row, of loads alone or of all accesses.
  std::string pointers_of_row(size_t count) const {
    std::string out;
    for (size_t i = 0; i < count; ++i) {
      out += at_.pointer(i);
      for (int32_t d = 0; d < kept(); ++d)
        out += fmt::format(" + i{} * {}", d, at_.stride_text(i, d));
      out += ", ";
      if (at_.is_strided(i)) out += fmt::format("s{}, ", i);
    }
    return out;
  }

  std::string next_row() const {
    std::string closing, out;
    for (int32_t d = kept() - 1; d > 0; --d) {
      out += fmt::format("    if (++i{0} == sizes[{0}]) {{\n      i{0} = 0;\n", d);
      closing += "    }\n";
    }
    return out + "    ++i0;\n" + closing;
  }

  std::string entry(std::string_view name) const {
    std::string out = fmt::format(
        "extern \"C\" void {}(const KernelArgs* args, long begin, long end) {{\n", name);
    out += at_.from_arguments();
    const std::string row = pointers_of_row(at_.count()) + body_.arguments();
    const bool scratch = passes_.has_scratch();
    const std::string_view sizes = scratch ? "kept, sizes, strides" : "sizes, strides";
    const std::string_view end = scratch ? "  free(kept);\n}\n" : "}\n";
    out += "  if (begin == end) return;\n";
    if (scratch)
      out += fmt::format("  float* const kept = scratch(sizes[{}]);\n", program_.rank() - 1);
    if (kept() == 0) return out + fmt::format("  row({}{}, args->streaming);\n{}", row, sizes, end);
    out += "  long q = begin;\n";
    for (int32_t d = kept() - 1; d > 0; --d)
      out += fmt::format("  long i{0} = q % sizes[{0}];\n  q /= sizes[{0}];\n", d);
    out += "  long i0 = q;\n";
    if (!leads_) {
      out += "  for (; begin < end; begin++) {\n";
      out += fmt::format("    row({}{}, args->streaming);\n", row, sizes);
      return out + next_row() + "  }\n" + std::string(end);
    }
    const std::string loads = pointers_of_row(at_.first_store());
    out += fmt::format("  Lead lead = lead_of({}sizes);\n", loads);
    out += "  for (; begin < end; begin++) {\n";
    for (size_t s = 0; s < program_.stores.size(); ++s) out += here(at_.first_store() + s);
    for (size_t i = 0; i < at_.first_store(); ++i) out += here(i);
    out += "    if (begin + 1 < end) {\n" + next_row() + "    }\n";  // the last one leads itself
    std::string current;
    for (size_t i = 0; i < at_.count(); ++i) {
      current += fmt::format("{}_here, ", at_.pointer(i));
      if (at_.is_strided(i)) current += fmt::format("s{}, ", i);
    }
    return out + fmt::format("    lead = row({}lead, {}{}, args->streaming);\n  }}\n{}", current,
                             loads, sizes, end);
  }

  std::string here(size_t i) const {
    std::string place = at_.pointer(i);
    for (int32_t d = 0; d < kept(); ++d)
      place += fmt::format(" + i{} * {}", d, at_.stride_text(i, d));
    return fmt::format("    {} {}_here = {};\n", at_.pointer_type(i), at_.pointer(i), place);
  }

  const LoopProgram& program_;
  CpuAccesses at_;
  CpuVectors vectors_;
  int lanes_;
  Prelude prelude_;
  CpuBody body_;
  CpuRowPasses passes_;
  bool leads_ = false;
};

}  // namespace

std::string print_cpu_rows(const LoopProgram& program, std::string_view name, int vector_bytes) {
  return RowPrinter(program, vector_bytes).print(name);
}

}  // namespace fulgurite
