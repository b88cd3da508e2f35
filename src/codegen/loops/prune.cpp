#include "codegen/loops/prune.h"

namespace fulgurite {
namespace {

std::vector<bool> live_statements(const LoopProgram& program) {
  std::vector<bool> live(program.statements.size(), false);
  for (const Store& store : program.stores) live[store.statement] = true;
  for (int32_t check : program.statements.checks) live[check] = true;
  for (int32_t i = program.statements.size() - 1; i >= 0; --i) {
    if (!live[i]) continue;
    const ScalarNode& node = program.statements[i];
    if (node.prim == Prim::Reduced) live[program.reductions[node.at].statement] = true;
    for (int32_t arg : node.args)
      if (arg >= 0) live[arg] = true;
  }
  return live;
}

// A result is rounded as it is written: not before, where nothing else needs that.
void leave_rounding_to_stores(LoopProgram& program) {
  const std::vector<bool> live = live_statements(program);
  std::vector<bool> used(live.size(), false);  // by more than results
  for (int32_t i = 0; i < program.statements.size(); ++i)
    for (int32_t arg : program.statements[i].args)
      if (live[i] && arg >= 0) used[arg] = true;
  for (const Reduction& reduction : program.reductions) used[reduction.statement] = true;
  for (Store& store : program.stores) {
    const ScalarNode& node = program.statements[store.statement];
    const bool rounds =
        node.prim == Prim::Round && static_cast<c10::ScalarType>(node.at) == store.access.dtype;
    if (rounds && !used[store.statement]) store.statement = node.args[0];
  }
}

}  // namespace

void prune(LoopProgram& program) {
  leave_rounding_to_stores(program);
  const std::vector<bool> live = live_statements(program);
  std::vector<int32_t> statement(live.size(), -1), load(program.loads.size(), -1);
  std::vector<int32_t> reduction(program.reductions.size(), -1);
  std::vector<Access> loads;
  std::vector<Reduction> reductions;
  ScalarGraph kept;
  for (int32_t i = 0; i < program.statements.size(); ++i) {
    if (!live[i]) continue;
    ScalarNode node = program.statements[i];
    for (int32_t& arg : node.args)
      if (arg >= 0) arg = statement[arg];
    if (node.prim == Prim::Load) {
      if (load[node.at] < 0) {
        load[node.at] = static_cast<int32_t>(loads.size());
        loads.push_back(program.loads[node.at]);
      }
      node.at = load[node.at];
    }
    if (node.prim == Prim::Reduced) {
      if (reduction[node.at] < 0) {
        reduction[node.at] = static_cast<int32_t>(reductions.size());
        reductions.push_back(program.reductions[node.at]);
        reductions.back().statement = statement[reductions.back().statement];
      }
      node.at = reduction[node.at];
    }
    if (node.prim == Prim::Given) node = kept[given(kept, program.statements.given[node.at]).node];
    statement[i] = kept.add(node);
  }
  for (int32_t check : program.statements.checks) kept.checks.push_back(statement[check]);
  for (Store& store : program.stores) store.statement = statement[store.statement];
  program.reductions = std::move(reductions);
  program.loads = std::move(loads);
  program.statements = std::move(kept);
}

}  // namespace fulgurite
