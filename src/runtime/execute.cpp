// The loop over the instructions of a plan.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>

#include <optional>
#include <utility>

#include "base/error.h"
#include "runtime/instruction.h"
#include "runtime/line_clock.h"
#include "runtime/region_watch.h"
#include "torch/custom_function.h"
#include "torch/kept_memory.h"

namespace fulgurite {
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
    case Operand::Kind::Number:
      stack.emplace_back(take(operand.slots[0]).item());
      return;
    case Operand::Kind::Numbers: {
      c10::List<at::Scalar> numbers;
      numbers.reserve(operand.slots.size());
      for (const SlotUse& use : operand.slots) numbers.push_back(take(use).item());
      stack.emplace_back(std::move(numbers));
      return;
    }
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
    if (result.slots[0] != kNoSlot) env[result.slots[0]] = std::move(value).toTensor();
    return;
  }
  size_t i = 0;
  for (const at::Tensor& tensor : value.toTensorList()) {
    if (result.slots[i] != kNoSlot) env[result.slots[i]] = tensor;
    ++i;
  }
}

// With all that lies between its first element and its last: elements may share memory.
at::Tensor copy_with_gaps(const at::Tensor& tensor) {
  at::Tensor copy = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
  if (tensor.numel() == 0) return copy;
  const auto elements = static_cast<int64_t>(copy.storage().nbytes() / copy.element_size());
  copy.as_strided({elements}, {1}, 0)
      .copy_(tensor.as_strided({elements}, {1}, tensor.storage_offset()));
  return copy;
}

void keep(LastInputs& last, RegionInputs inputs) {
  std::vector<at::Tensor> copies;
  for (const RegionInput& input : inputs) copies.push_back(copy_with_gaps(*input.tensor));
  const std::lock_guard lock(last.mutex);
  last.tensors = std::move(copies);
}

std::vector<at::Tensor> take(RegionInputs inputs) {
  std::vector<at::Tensor> tensors;
  for (const RegionInput& input : inputs)
    tensors.push_back(input.last ? std::move(*input.tensor) : *input.tensor);
  return tensors;
}

std::vector<at::Tensor> run_calls(const CompiledRegion& region, RegionInputs inputs) {
  std::vector<at::Tensor> results = execute(region.calls, take(inputs));
  // Nothing is to be said of an error, which is raised by now.
  TORCH_WARN_ONCE(region.name,
                  " runs call by call: an input is not laid out as its trace says, or holds values "
                  "that no kernel is made for");
  return results;
}

// What torch's profilers show a region as, while there are any: from now until `range` ends.
void begin_range(std::optional<at::RecordFunction>& range, const CompiledRegion& region,
                 RegionInputs inputs) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
  if (!callbacks) return;
  range.emplace(std::move(*callbacks));
  std::vector<c10::IValue> values;
  if (range->needsInputs())
    for (const RegionInput& input : inputs) values.emplace_back(*input.tensor);
  range->before(region.title.c_str(),
                c10::ArrayRef<const c10::IValue>(values.data(), values.size()));
}

void execute_region(const Instruction& instruction, Environment& env) {
  c10::SmallVector<RegionInput, 12> inputs;
  c10::SmallVector<at::Tensor, 4> results;
  for (const Operand& operand : instruction.operands)
    inputs.push_back({&env[operand.slots[0].slot], operand.slots[0].last});
  c10::SmallVector<at::Tensor, 4> targets;
  for (Slot slot : instruction.targets)
    targets.push_back(slot == kNoSlot ? at::Tensor() : env[slot]);
  const CompiledRegion& region = *instruction.region;
  if (region.last_inputs) keep(*region.last_inputs, inputs);
  std::optional<at::RecordFunction> range;
  begin_range(range, region, inputs);
  if (const RegionWatch* watch = RegionWatch::current()) {
    for (at::Tensor& result : watch->run(instruction.region, take(inputs)))
      results.push_back(std::move(result));
  } else if (!region.code->run(inputs, targets, results)) {
    for (at::Tensor& result : run_calls(region, inputs)) results.push_back(std::move(result));
  }
  for (const RegionInput& input : inputs)
    if (input.last) input.tensor->reset();
  for (size_t i = 0; i < instruction.results.size(); ++i)
    if (const Slot slot = instruction.results[i].slots[0]; slot != kNoSlot)
      env[slot] = std::move(results[i]);
}

void execute_call(const Instruction& instruction, Environment& env, torch::jit::Stack& stack) {
  stack.clear();
  for (const Operand& operand : instruction.operands) push_argument(operand, env, stack);
  if (instruction.custom)
    call_custom(instruction.custom, stack);
  else
    instruction.op->callBoxed(&stack);
  for (size_t i = 0; i < instruction.results.size(); ++i)
    pop_result(instruction.results[i], stack[i], env);
}

// Nothing is left to copy where the region has written there; it counts as a write all the same.
bool is_copied(const Instruction& copy, Environment& env) {
  const SlotUse to = copy.operands[0].slots[0], from = copy.operands[1].slots[0];
  const at::Tensor& target = env[to.slot];
  if (!target.is_same(env[from.slot]) || target.is_inference()) return false;
  target.unsafeGetTensorImpl()->bump_version();
  if (from.last) env[from.slot].reset();
  if (to.last) env[to.slot].reset();
  return true;
}

void execute(const Instruction& instruction, Environment& env, torch::jit::Stack& stack) {
  std::optional<KeepsLargeResults> keeps;
  if (instruction.makes_large) keeps.emplace();
  const bool done = instruction.copies_target && is_copied(instruction, env);
  if (instruction.region)
    execute_region(instruction, env);
  else if (!done)
    execute_call(instruction, env, stack);
  for (Slot slot : instruction.frees) env[slot].reset();
}

// The run of instructions from `i` on that share a dispatch mode, under that mode.
void execute_group(const std::vector<Instruction>& all, size_t& i, Environment& env,
                   torch::jit::Stack& stack, LineClock* clock) {
  const auto group = [&](auto&... guards) {
    const size_t first = i;
    (static_cast<void>(guards), ...);
    for (; i < all.size() && all[i].dispatch == all[first].dispatch; ++i) {
      execute(all[i], env, stack);
      if (clock) clock->lap(all[i].line);
    }
  };
  switch (all[i].dispatch) {
    case Dispatch::BelowAutograd: {
      at::AutoDispatchBelowADInplaceOrView below;
      return group(below);
    }
    case Dispatch::BelowAutogradNoGrad: {
      at::AutoDispatchBelowADInplaceOrView below;
      c10::AutoGradMode off(false);
      return group(below, off);
    }
    case Dispatch::NoGrad: {
      c10::AutoGradMode off(false);
      return group(off);
    }
    case Dispatch::Ambient:
      return group();
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

}  // namespace

std::vector<at::Tensor> execute(const Lowered& program, std::vector<at::Tensor> inputs) {
  size_t done;
  return execute(program, std::move(inputs), done);
}

std::vector<at::Tensor> execute(const Lowered& program, std::vector<at::Tensor> inputs,
                                size_t& done, LineClock* clock) {
  done = 0;
  Environment env(program.slots);
  for (size_t i = 0; i < inputs.size(); ++i) env[program.inputs[i]] = std::move(inputs[i]);
  torch::jit::Stack stack;
  while (done < program.instructions.size())
    execute_group(program.instructions, done, env, stack, clock);
  std::vector<at::Tensor> outputs;
  outputs.reserve(program.outputs.size());
  for (Slot slot : program.outputs) outputs.push_back(slot == kNoSlot ? at::Tensor() : env[slot]);
  return outputs;
}

}  // namespace fulgurite
