#include "runtime/plan.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "runtime/instruction.h"

namespace fulgurite {

struct Plan::Program {
  std::vector<Instruction> instructions;
  std::vector<Slot> inputs;
  std::vector<Slot> outputs;
  Slot slots = 0;
  mutable std::atomic<int64_t> nanoseconds{0};
};

namespace {

using Environment = std::vector<at::Tensor>;

void push_argument(const Operand& operand, Environment& env, torch::jit::Stack& stack) {
  auto take = [&](const SlotUse& use) {
    return use.last ? std::move(env[use.slot]) : env[use.slot];
  };
  switch (operand.kind) {
    case Operand::Kind::Constant:
      stack.push_back(operand.constant);
      return;
    case Operand::Kind::Tensor:
      stack.emplace_back(take(operand.slots[0]));
      return;
    case Operand::Kind::Tensors: {
      c10::List<at::Tensor> list;
      list.reserve(operand.slots.size());
      for (const SlotUse& use : operand.slots)
        list.push_back(use.slot == kNoSlot ? at::Tensor() : take(use));
      stack.emplace_back(std::move(list));
      return;
    }
    case Operand::Kind::OptionalTensors: {
      c10::List<std::optional<at::Tensor>> list;
      list.reserve(operand.slots.size());
      for (const SlotUse& use : operand.slots)
        list.push_back(use.slot == kNoSlot ? std::nullopt : std::optional<at::Tensor>(take(use)));
      stack.emplace_back(std::move(list));
      return;
    }
  }
}

void pop_result(const Result& result, c10::IValue& value, Environment& env) {
  if (result.slots.empty()) return;
  if (!result.is_list) {
    env[result.slots[0]] = std::move(value).toTensor();
    return;
  }
  size_t i = 0;
  for (const at::Tensor& tensor : value.toTensorList()) {
    if (result.slots[i] != kNoSlot) env[result.slots[i]] = tensor;
    ++i;
  }
}

void execute(const Instruction& instruction, Environment& env, torch::jit::Stack& stack) {
  stack.clear();
  for (const Operand& operand : instruction.operands) push_argument(operand, env, stack);
  instruction.op.callBoxed(&stack);
  for (size_t i = 0; i < instruction.results.size(); ++i)
    pop_result(instruction.results[i], stack[i], env);
  for (Slot slot : instruction.frees) env[slot].reset();
}

// The run of instructions from `i` on that share a dispatch mode, under that mode.
size_t execute_group(const std::vector<Instruction>& all, size_t i, Environment& env,
                     torch::jit::Stack& stack) {
  const auto group = [&](auto&... guards) {
    const size_t first = i;
    (static_cast<void>(guards), ...);
    while (i < all.size() && all[i].dispatch == all[first].dispatch) execute(all[i++], env, stack);
    return i;
  };
  switch (all[i].dispatch) {
    case Dispatch::BelowAutograd: {
      at::AutoDispatchBelowADInplaceOrView below;
      return group(below);
    }
    case Dispatch::NoGrad: {
      c10::AutoGradMode off(false);
      return group(off);
    }
    case Dispatch::Grad: {
      c10::AutoGradMode on(true);
      return group(on);
    }
    case Dispatch::Inference: {
      c10::InferenceMode inference;
      return group(inference);
    }
  }
  internal_error("an instruction without a dispatch mode");
}

const c10::DispatchKeySet kAutocast{c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA,
                                    c10::DispatchKey::AutocastXPU, c10::DispatchKey::AutocastMPS,
                                    c10::DispatchKey::AutocastPrivateUse1};

}  // namespace

Plan::Plan(const Trace& trace) : program_(std::make_unique<Program>()) {
  Lowered lowered = lower(trace);
  program_->instructions = std::move(lowered.instructions);
  program_->inputs = std::move(lowered.inputs);
  program_->outputs = std::move(lowered.outputs);
  program_->slots = lowered.slots;
}
Plan::~Plan() = default;
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;

std::vector<at::Tensor> Plan::run(std::vector<at::Tensor> inputs) const {
  const Program& p = *program_;
  require(inputs.size() == p.inputs.size(), "a plan of {} inputs was given {}", p.inputs.size(),
          inputs.size());
  const auto start = std::chrono::steady_clock::now();
  Environment env(p.slots);
  for (size_t i = 0; i < inputs.size(); ++i) env[p.inputs[i]] = std::move(inputs[i]);
  torch::jit::Stack stack;
  {
    // The casts of autocast are calls of the trace.
    c10::impl::ExcludeDispatchKeyGuard no_autocast(kAutocast);
    for (size_t i = 0; i < p.instructions.size();) i = execute_group(p.instructions, i, env, stack);
  }
  std::vector<at::Tensor> outputs;
  outputs.reserve(p.outputs.size());
  for (Slot slot : p.outputs) outputs.push_back(env[slot]);
  const auto taken = std::chrono::steady_clock::now() - start;
  p.nanoseconds.store(std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count(),
                      std::memory_order_relaxed);
  return outputs;
}

int64_t Plan::typical_nanoseconds() const {
  return program_->nanoseconds.load(std::memory_order_relaxed);
}

}  // namespace fulgurite
