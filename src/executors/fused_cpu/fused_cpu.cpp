#include "executors/fused_cpu/fused_cpu.h"

#include <algorithm>
#include <unordered_map>

#include "codegen/jit/compile.h"
#include "codegen/loops/lower.h"
#include "executors/fused_cpu/cost.h"
#include "executors/fused_cpu/draw_check.h"
#include "executors/fused_cpu/region_kernel.h"
#include "ir/structure.h"
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

bool is_cheap(const LoopProgram& program) {
  const auto takes_long = [](const ScalarNode& node) {
    const bool divides = node.prim == Prim::Div || node.prim == Prim::Rem;
    return node.takes_long() || is_running(node.prim) ||
           (divides && !c10::isFloatingType(node.dtype));
  };
  return program.reductions.empty() && program.drawn.empty() && program.statements.checks.empty() &&
         std::ranges::none_of(program.loads, &Access::by_lane) &&
         std::ranges::none_of(program.statements.nodes(), takes_long);
}

Quote fuses(const Trace& trace, std::span<const Call* const> pointers,
            c10::ArrayRef<ValueId> inputs, c10::ArrayRef<ValueId> outputs) {
  std::vector<Call> calls;
  for (const Call* call : pointers) calls.push_back(*call);
  Quote quote;
  auto made = lower_region(trace, calls, inputs, outputs);
  const auto* program = std::get_if<LoopProgram>(&made);
  if (calls.size() == 1) quote.apart = aten_nanoseconds(trace, calls[0], program);
  if (program) {
    quote.refusal = refuse_on_cores(*program);
    quote.together = kernel_nanoseconds(*program, default_target().vector_bytes);
    quote.is_cheap = is_cheap(*program);
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

// Regions of one structure have one code.
std::vector<RegionCodePointer> lower(const Trace& trace, std::span<const Call* const> regions) {
  Structure structure;
  std::unordered_map<std::string, size_t> number_of;
  std::vector<const Call*> distinct;
  std::vector<size_t> numbers;
  for (const Call* region : regions) {
    std::vector<ValueId> inputs, outputs;
    for_each_value(region->args, [&](ValueId id) { inputs.push_back(id); });
    for_each_value(region->results, [&](ValueId id) { outputs.push_back(id); });
    std::vector<const Call*> calls;
    for (const Call& call : region->body) calls.push_back(&call);
    auto key = structure.of(trace, calls, inputs, outputs);
    numbers.push_back(distinct.size());
    if (key) numbers.back() = number_of.emplace(std::move(*key), distinct.size()).first->second;
    if (numbers.back() == distinct.size()) distinct.push_back(region);
  }
  std::vector<RegionCodePointer> made, codes;
  for (const RegionKernelPointer& kernel : region_kernels(trace, distinct))
    made.push_back(code_of(kernel));
  for (size_t number : numbers) codes.push_back(made.at(number));
  return codes;
}

}  // namespace

Executor fused_cpu_executor() { return {"fused_cpu", &claims, &fuses, &lower}; }

}  // namespace fulgurite
