// What the lanes of a body do each for itself: reads where statements say, checks, running sums.
#include <algorithm>

#include <fmt/format.h>

#include "codegen/loops/cpu_body.h"
#include "codegen/loops/cpu_types.h"

namespace fulgurite {

std::string CpuBody::load_by_lane(const ScalarNode& node, const Context& context, std::string place,
                                  const std::string& step) {
  const std::string lanes = context.partial ? "k" : context.active;
  if (node.args[0] >= 0 && differs_[node.args[0]]) {
    const bool guarded = node.args[1] >= 0;
    prelude_.use(guarded ? "guarded_gather" : "gather");
    return fmt::format("gather({}, {}, {}, {}{})", place, step, arg(node, 0),
                       guarded ? arg(node, 1) + ", " : "", lanes);
  }
  if (node.args[0] >= 0) place += fmt::format(" + {}[0]", arg(node, 0));
  if (node.args[1] >= 0) {
    prelude_.use("load_where");
    std::string guard = arg(node, 1);
    if (lanes != "L") {
      prelude_.use("first_lanes");
      guard += fmt::format(" & first_lanes({})", lanes);
    }
    return fmt::format("load_where({}, {}, {})", place, step, guard);
  }
  if (step == "0") return fmt::format("splat({})", place);
  if (lanes != "L") {
    prelude_.use("load_part");
    const std::string part = fmt::format("load_part({}, {}, {})", place, step, lanes);
    return step == "1" ? fmt::format("{} == L ? load({}) : {}", lanes, place, part) : part;
  }
  if (step == "1") return fmt::format("load({})", place);
  prelude_.use("strided_load");
  return fmt::format("load({}, {})", place, step);
}

std::vector<int32_t> CpuBody::inner_checks() const {
  std::vector<int32_t> inner;
  for (int32_t i : program_.statements.checks)
    if (inner_[i]) inner.push_back(i);
  return inner;
}

bool CpuBody::checks_in(int32_t pass) const {
  return std::ranges::all_of(program_.stores, &Store::per_row) &&
         std::ranges::all_of(program_.reductions,
                             [&](const Reduction& r) { return r.pass <= pass; });
}

std::string CpuBody::begin_checks() const {
  return program_.statements.checks.empty() ? "" : "  mask bad = {};\n";
}

std::string CpuBody::end_checks() const {
  if (program_.statements.checks.empty()) return "";
  return "  if (__builtin_reduce_or(bad)) __atomic_store_n(failed, 1l, __ATOMIC_RELAXED);\n";
}

std::string CpuBody::begin_running() const {
  std::string out;
  for (int32_t i = 0; i < program_.statements.size(); ++i) {
    const ScalarNode& node = program_.statements[i];
    if (!is_running(node.prim)) continue;
    const std::string_view start = node.prim == Prim::RunningSum ? "0" : "1";
    out += program_.columns ? fmt::format("  {} run{} = {}({});\n", vector_type(node.dtype), i,
                                          vector_name(node.dtype), start)
                            : fmt::format("  {} run{} = {};\n", element_type(node.dtype), i, start);
  }
  return out;
}

std::string CpuBody::running(int32_t i) {
  const ScalarNode& node = program_.statements[i];
  const bool sum = node.prim == Prim::RunningSum;
  if (program_.columns)
    return fmt::format("(run{0} = run{0} {1} {2})", i, sum ? "+" : "*", arg(node, 0));
  const std::string_view name = sum ? "running_sum" : "running_product";
  prelude_.use(name);
  return fmt::format("{}(run{}, {})", name, i, arg(node, 0));
}

std::string CpuBody::check(int32_t i, const Context& context) {
  const auto& checks = program_.statements.checks;
  if (std::ranges::find(checks, i) == checks.end()) return "";
  const std::string lanes = context.partial ? "k" : context.active;
  if (lanes == "L" || !differs_[i]) return fmt::format("    bad |= ~t{};\n", i);
  prelude_.use("first_lanes");
  return fmt::format("    bad |= ~t{} & first_lanes({});\n", i, lanes);
}

}  // namespace fulgurite
