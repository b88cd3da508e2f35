#include "codegen/loops/bind.h"

#include "base/error.h"

namespace fulgurite {
namespace {

// A cache line of the narrowest elements; whole vectors of the widest lanes.
constexpr int64_t kElementsPerGrain = 64;

template <class F>
void for_each_access(const LoopProgram& program, F&& f) {
  for (const Access& load : program.loads) f(load);
  for (const Store& store : program.stores) f(store.access);
}

}  // namespace

Pointers pointers_of(const LoopProgram& program, c10::ArrayRef<void*> data) {
  require(static_cast<int32_t>(data.size()) == program.inputs + program.outputs,
          "{} tensors for {} inputs and {} outputs", data.size(), program.inputs, program.outputs);
  Pointers pointers;
  pointers.reserve(program.loads.size() + program.stores.size());
  for_each_access(program, [&](const Access& access) {
    const auto bytes = access.offset * static_cast<int64_t>(c10::elementSize(access.dtype));
    pointers.push_back(static_cast<char*>(data.at(access.buffer)) + bytes);
  });
  return pointers;
}

BoundLoops layout_of(const LoopProgram& program, int64_t cache_bytes) {
  BoundLoops layout;
  for_each_access(program, [&](const Access& access) {
    layout.strides.insert(layout.strides.end(), access.strides.begin(), access.strides.end());
  });
  layout.sizes = program.sizes;
  layout.given = program.statements.given;
  layout.places = program.places();
  layout.grain = program.reduced && !program.columns ? 1 : kElementsPerGrain;
  layout.streaming = program.bytes() >= cache_bytes;
  return layout;
}

BoundLoops bind(const LoopProgram& program, c10::ArrayRef<void*> data, int64_t cache_bytes) {
  BoundLoops bound = layout_of(program, cache_bytes);
  bound.pointers = pointers_of(program, data);
  return bound;
}

}  // namespace fulgurite
