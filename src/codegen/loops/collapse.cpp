#include "codegen/loops/collapse.h"

#include <algorithm>
#include <set>

namespace fulgurite {
namespace {

template <class F>
void for_each_access(LoopProgram& program, F&& f) {
  for (Access& load : program.loads) f(load);
  for (Store& store : program.stores) f(store.access);
}

std::set<int32_t> used_indices(const ScalarGraph& statements) {
  std::set<int32_t> used;
  for (const ScalarNode& node : statements.nodes())
    if (node.prim == Prim::Index) used.insert(node.at);
  return used;
}

bool can_merge(LoopProgram& program, int32_t d, const std::set<int32_t>& used) {
  if (used.contains(d) || used.contains(d + 1)) return false;
  const int32_t kept = program.rank() - program.reduced;
  if (program.reduced && d + 1 == kept) return false;
  bool fits = true;
  for_each_access(program, [&](const Access& access) {
    fits &= access.strides[d] == access.strides[d + 1] * program.sizes[d + 1];
  });
  return fits;
}

// Dimension d takes in d + 1.
void merge(LoopProgram& program, int32_t d) {
  if (program.reduced && d >= program.rank() - program.reduced) --program.reduced;
  program.sizes[d] *= program.sizes[d + 1];
  program.sizes.erase(program.sizes.begin() + d + 1);
  for_each_access(program,
                  [&](Access& access) { access.strides.erase(access.strides.begin() + d); });
  ScalarGraph renumbered;
  renumbered.given = std::move(program.statements.given);
  renumbered.checks = std::move(program.statements.checks);
  for (ScalarNode node : program.statements.nodes()) {
    if (node.prim == Prim::Index && node.at > d) --node.at;
    renumbered.add(node);
  }
  program.statements = std::move(renumbered);
}

}  // namespace

void collapse(LoopProgram& program) {
  for (int32_t d = program.rank() - 2; d >= 0; --d)
    if (can_merge(program, d, used_indices(program.statements))) merge(program, d);
}

}  // namespace fulgurite
