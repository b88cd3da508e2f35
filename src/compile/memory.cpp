#include "compile/memory.h"

#include <unordered_map>
#include <unordered_set>

#include "codegen/jit/compile.h"
#include "executors/fused_cpu/fused_cpu.h"
#include "executors/fused_cpu/region_memory.h"
#include "executors/onednn/onednn.h"
#include "runtime/targets.h"

namespace fulgurite {

MemoryTimeline predict_memory(const Trace& trace) {
  const std::string name = fused_cpu_executor().name;
  const bool has_compiler = missing_compiler().empty();
  std::unordered_map<const Call*, RegionMemory> memory;
  std::unordered_set<const Call*> declining;
  for (const Call& call : trace.calls) {
    if (!has_compiler || call.op.aten || call.gradient || call.executor != name) continue;
    MemoryOfKernel kernel = memory_of_kernel(trace, call);
    if (kernel.checks_elements) declining.insert(&call);
    memory.emplace(&call, RegionMemory{std::move(kernel.over), {}, kernel.scratch});
  }
  const auto may_decline = [&](const Call& region) {
    if (region.executor == onednn_executor().name) return false;
    return !memory.contains(&region) || declining.contains(&region);
  };
  for (auto& [region, targets] : find_targets(trace, may_decline))
    if (const auto found = memory.find(region); found != memory.end())
      found->second.targets = std::move(targets);
  return memory_timeline(trace, [&](const Call& region) -> std::optional<RegionMemory> {
    if (const auto found = memory.find(&region); found != memory.end()) return found->second;
    if (region.executor == name) return std::nullopt;
    return RegionMemory{};
  });
}

}  // namespace fulgurite
