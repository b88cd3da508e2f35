#include "codegen/loops/bind.h"

#include "base/error.h"

namespace fulgurite {
namespace {

// A cache line of the narrowest elements; whole vectors of the widest lanes.
constexpr int64_t kElementsPerGrain = 64;

void add(BoundLoops& bound, const Access& access, c10::ArrayRef<void*> data) {
  const auto bytes = access.offset * static_cast<int64_t>(c10::elementSize(access.dtype));
  bound.pointers.push_back(static_cast<char*>(data.at(access.buffer)) + bytes);
  bound.strides.insert(bound.strides.end(), access.strides.begin(), access.strides.end());
}

}  // namespace

BoundLoops bind(const LoopProgram& program, c10::ArrayRef<void*> data, int64_t cache_bytes) {
  require(static_cast<int32_t>(data.size()) == program.inputs + program.outputs,
          "{} tensors for {} inputs and {} outputs", data.size(), program.inputs, program.outputs);
  BoundLoops bound;
  for (const Access& load : program.loads) add(bound, load, data);
  for (const Store& store : program.stores) add(bound, store.access, data);
  bound.sizes = program.sizes;
  bound.places = program.places();
  bound.grain = program.reduced && !program.columns ? 1 : kElementsPerGrain;
  bound.streaming = program.bytes() >= cache_bytes;
  return bound;
}

void run(const BoundLoops& bound, KernelFunction kernel) {
  if (bound.places == 0) return;
  const KernelArgs args = bound.args();
  kernel(&args, 0, bound.places);
}

}  // namespace fulgurite
