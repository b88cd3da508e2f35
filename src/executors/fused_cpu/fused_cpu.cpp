#include "executors/fused_cpu/fused_cpu.h"

#include "codegen/jit/compile.h"
#include "codegen/loops/lower.h"
#include "executors/fused_cpu/region_kernel.h"

namespace fulgurite {
namespace {

Refusal claims(const Trace& trace, const Call& call) {
  if (std::string missing = missing_compiler(); !missing.empty()) return missing;
  bool elsewhere = false;
  const auto look = [&](ValueId id) { elsewhere |= !type_of(trace, id).device.is_cpu(); };
  for_each_value(call.args, look);
  for_each_value(call.results, look);
  if (elsewhere) return "it is not on the CPU";
  if (call.mode == GradMode::Grad) return "autograd is to see it";
  return refuse_in_loops(trace, call);
}

Refusal fuses(const Trace& trace, std::span<const Call> calls, c10::ArrayRef<ValueId> inputs,
              c10::ArrayRef<ValueId> outputs) {
  auto made = lower_region(trace, calls, inputs, outputs);
  if (auto* refusal = std::get_if<Refusal>(&made)) return std::move(*refusal);
  return "";
}

std::shared_ptr<const RegionCode> lower(const Trace& trace, const Call& region) {
  std::shared_ptr<const RegionKernel> kernel = region_kernel(trace, region);
  if (!kernel) return nullptr;
  auto code = std::make_shared<RegionCode>();
  code->run = [kernel](TensorList inputs, std::vector<at::Tensor>& results) {
    return run(*kernel, inputs, results);
  };
  code->time = [kernel](TensorList inputs, double seconds) {
    return time(*kernel, inputs, seconds);
  };
  code->program = to_text(kernel->program);
  code->text = kernel->kernel->text;
  code->assembly = [kernel] { return assembly(*kernel->kernel); };
  code->bytes = kernel->bytes;
  return code;
}

}  // namespace

Executor fused_cpu_executor() { return {"fused_cpu", &claims, &fuses, &lower}; }

}  // namespace fulgurite
