#include "executors/fused_cpu/region_memory.h"

#include "base/error.h"
#include "codegen/loops/lower.h"
#include "executors/fused_cpu/run_kernel.h"
#include "ir/layout.h"

namespace fulgurite {
namespace {

bool have_one_layout(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides && a.conj == b.conj &&
         a.neg == b.neg;
}

// An element of the one for each of the other, and nothing besides.
bool fill_one_memory(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && numel(a) == numel(b) && is_dense(a) && is_dense(b) && !a.conj &&
         !a.neg && !b.conj && !b.neg;
}

bool are_at_one_place(const LoopProgram& program, const Access& load, const Access& store) {
  bool same = load.offset == store.offset && !load.by_lane;
  for (size_t d = 0; d < program.sizes.size(); ++d)
    same &= program.sizes[d] == 1 || load.strides[d] == store.strides[d];
  return same;
}

std::vector<TensorType> types_of(const Trace& trace, const std::vector<ValueId>& ids) {
  std::vector<TensorType> types;
  for (ValueId id : ids) types.push_back(type_of(trace, id));
  return types;
}

}  // namespace

// All inputs are read again after a check has failed. Rows are written once all of a row that the
// results need was read; the next row may be read meanwhile, but lies elsewhere. Where rows go side
// by side as columns that is not so.
WrittenOver written_over(const LoopProgram& program, const std::vector<TensorType>& inputs,
                         const std::vector<TensorType>& outputs) {
  WrittenOver result(outputs.size());
  if (program.columns || !program.statements.checks.empty()) return result;
  for (const Store& store : program.stores) {
    if (store.per_row) continue;
    const size_t output = store.access.buffer - program.inputs;
    for (int32_t i = 0; i < program.first_drawn(); ++i) {
      bool fits = have_one_layout(inputs[i], outputs[output]) ||
                  fill_one_memory(inputs[i], outputs[output]);
      for (const Access& load : program.loads)
        if (load.buffer == i) fits &= are_at_one_place(program, load, store.access);
      if (fits) result[output].push_back(i);
    }
  }
  return result;
}

MemoryOfKernel memory_of_kernel(const Trace& trace, const Call& region) {
  std::vector<ValueId> inputs, outputs;
  for_each_value(region.args, [&](ValueId id) { inputs.push_back(id); });
  for_each_value(region.results, [&](ValueId id) { outputs.push_back(id); });
  const auto made = lower_region(trace, region.body, inputs, outputs);
  if (const auto* refusal = std::get_if<Refusal>(&made))
    internal_error("{} is no loop program: {}", region.op.region, *refusal);
  const LoopProgram& program = std::get<LoopProgram>(made);
  MemoryOfKernel memory;
  memory.checks_elements = !program.statements.checks.empty();
  if (!draws_in_blocks(program))
    for (const DrawnWords& drawn : program.drawn)
      memory.scratch += drawn.elements * drawn.each * static_cast<int64_t>(sizeof(uint32_t));
  for (const auto& places :
       written_over(program, types_of(trace, inputs), types_of(trace, outputs))) {
    memory.over.emplace_back();
    for (int32_t i : places) memory.over.back().push_back(inputs[i]);
  }
  return memory;
}

}  // namespace fulgurite
