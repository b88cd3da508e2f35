#include "executors/fused_cpu/fused_cpu.h"

#include "codegen/jit/compile.h"
#include "codegen/loops/lower.h"
#include "executors/fused_cpu/cost.h"
#include "executors/fused_cpu/draw_check.h"
#include "executors/fused_cpu/region_kernel.h"
#include "ops/facts.h"
#include "ops/kernel_errors.h"

namespace fulgurite {
namespace {

constexpr int kBytesOfAvx2 = 32;

Refusal claims(const Trace& trace, const Call& call) {
  if (std::string missing = missing_compiler(); !missing.empty()) return missing;
  if (const CpuTarget& target = default_target(); target.vector_bytes < kBytesOfAvx2)
    return fmt::format("its kernels are written for AVX2 and FMA, which {} lacks", target.name);
  bool elsewhere = false;
  const auto look = [&](ValueId id) { elsewhere |= !type_of(trace, id).device.is_cpu(); };
  for_each_value(call.args, look);
  for_each_value(call.results, look);
  if (elsewhere) return "it is not on the CPU";
  if (call.mode == GradMode::Grad) return "autograd is to see it";
  if (draws(call) && !refuse_draws().empty()) return refuse_draws();
  // Before any lowering: rules are written for the dtypes that ATen has kernels for.
  if (const std::string error = error_of_kernels(trace, call); !error.empty())
    return "ATen raises: " + error;
  return refuse_in_loops(trace, call);
}

Quote fuses(const Trace& trace, std::span<const Call> calls, c10::ArrayRef<ValueId> inputs,
            c10::ArrayRef<ValueId> outputs) {
  Quote quote;
  auto made = lower_region(trace, calls, inputs, outputs);
  const auto* program = std::get_if<LoopProgram>(&made);
  if (calls.size() == 1) quote.apart = aten_nanoseconds(trace, calls[0], program);
  if (program) {
    quote.refusal = refuse_on_cores(*program);
    quote.together = kernel_nanoseconds(*program, default_target().vector_bytes);
  } else {
    quote.refusal = std::get<Refusal>(std::move(made));
  }
  return quote;
}

RegionCodePointer code_of(const RegionKernelPointer& kernel) {
  if (!kernel) return nullptr;
  auto code = std::make_shared<RegionCode>();
  code->run = [kernel](RegionInputs inputs, RegionTargets targets, RegionResults& results) {
    return run(*kernel, inputs, targets, results);
  };
  code->checks_elements = !kernel->program.statements.checks.empty();
  code->time = [kernel](TensorList inputs, double seconds) {
    return time(*kernel, inputs, seconds);
  };
  code->program = to_text(kernel->program);
  code->text = kernel->kernel->text;
  code->used_text = [kernel] { return used_text(*kernel); };
  code->assembly = [kernel] { return assembly(kernel->used()); };
  code->replace_text = [kernel](const std::string& text) { replace_text(*kernel, text); };
  code->bytes = kernel->bytes;
  return code;
}

std::vector<RegionCodePointer> lower(const Trace& trace, std::span<const Call* const> regions) {
  std::vector<RegionCodePointer> codes;
  for (const RegionKernelPointer& kernel : region_kernels(trace, regions))
    codes.push_back(code_of(kernel));
  return codes;
}

}  // namespace

Executor fused_cpu_executor() { return {"fused_cpu", &claims, &fuses, &lower}; }

}  // namespace fulgurite
