#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "ir/custom_call.h"
#include "ir/number_argument.h"
#include "ops/facts.h"
#include "ops/named_ops.h"
#include "passes/memory.h"
#include "passes/passes.h"
#include "runtime/instruction.h"
#include "runtime/targets.h"
#include "torch/kept_memory.h"

namespace fulgurite {
namespace {

// What is asked of a whole trace.
struct TraceMemory {
  std::unordered_set<StorageId> given, visible;  // of inputs; of outputs as well
  bool requires_grad = false;                    // any value

  explicit TraceMemory(const Trace& trace) {
    for (const Input& input : trace.inputs) given.insert(type_of(trace, input.id).storage);
    visible = given;
    for (ValueId id : trace.outputs) visible.insert(type_of(trace, id).storage);
    for (const Value& value : trace.values) requires_grad |= value.type.requires_grad;
  }
};

std::string title_of(const Call& region) {
  std::string operators;
  for (const Call& call : region.body) {
    std::string name = call.op.name();
    if (const size_t space = name.find("::"); space != std::string::npos) name.erase(0, space + 2);
    operators += (operators.empty() ? "" : ", ") + name.substr(0, name.find('.'));
  }
  return fmt::format("{} ({})", region.op.region, operators);
}

class Lowering {
 public:
  Lowering(const Trace& trace, const TraceMemory& memory, const LowerOptions& options = {})
      : trace_(trace), memory_(memory), options_(options) {}

  Lowered run(const std::vector<Call>& calls, const std::vector<ValueId>& inputs,
              const std::vector<ValueId>& outputs) {
    for (const Executor& executor : options_.executors)
      if (executor.lower) make_code(executor, calls);
    if (!code_.empty())
      targets_ = find_targets(trace_, [this](const Call& region) { return may_decline(region); });
    for (ValueId id : inputs) out_.inputs.push_back(define(id));
    for (const Call& call : calls) {
      add(call);
      ++out_.lines;
    }
    for (ValueId id : outputs) out_.outputs.push_back(id == kNoValue ? kNoSlot : slot(id));
    out_.slots = static_cast<Slot>(slots_.size());
    return std::move(out_);
  }

 private:
  Slot define(ValueId id) {
    return slots_.try_emplace(id, static_cast<Slot>(slots_.size())).first->second;
  }

  Slot slot(ValueId id) const {
    auto it = slots_.find(id);
    require(it != slots_.end(), "value {} of trace {} is used but never made", id, trace_.name);
    return it->second;
  }

  void add(const Call& call) {
    Instruction instruction;
    instruction.op = call.op.aten;
    if (!call.op.aten && !call.gradient) {
      instruction.region = region(call);
      if (!instruction.region) {
        for (const Call& inner : call.body) add(inner);
        free_after(call, {});
        return;
      }
    }
    instruction.dispatch = dispatch_of(call);
    if (call.gradient) instruction.custom = custom_function(call, programs());
    std::unordered_set<ValueId> moved;
    // Backwards, so that the last of several uses is the one that moves.
    for (size_t i = call.args.size(); i-- > 0;)
      instruction.operands.push_back(operand(call, i, moved));
    std::reverse(instruction.operands.begin(), instruction.operands.end());
    for (const Arg& arg : call.results) instruction.results.push_back(result(call, arg));
    if (const auto targets = targets_.find(&call); targets != targets_.end())
      for (ValueId id : targets->second)
        instruction.targets.push_back(id == kNoValue ? kNoSlot : slot(id));
    instruction.copies_target = copies_target(call);
    instruction.makes_large = makes_large(call);
    note_effects(call, !instruction.targets.empty());
    instruction.line = static_cast<int32_t>(out_.lines);
    out_.instructions.push_back(std::move(instruction));
    free_after(call, moved);
  }

  MakeProgram programs() const {
    return [this](const std::vector<Call>& calls, const std::vector<ValueId>& inputs,
                  const std::vector<ValueId>& outputs) -> TensorProgram {
      const auto made = std::make_shared<const Lowered>(lower(trace_, calls, inputs, outputs));
      return [made](std::vector<at::Tensor> given) { return execute(*made, std::move(given)); };
    };
  }

  bool copies_target(const Call& call) const {
    if (targets_.empty() || !call.op.aten || *call.op.aten != named_ops().copy_) return false;
    return std::any_of(targets_.begin(), targets_.end(), [&](const auto& entry) {
      const auto& [region, inputs] = entry;
      for (size_t k = 0; k < inputs.size(); ++k)
        if (inputs[k] == call.args[0].values[0])
          return call.args[1].values == region->results[k].values;
      return false;
    });
  }

  bool makes_large(const Call& call) const {
    bool large = false;
    for_each_value(call.results, [&](ValueId id) {
      const TensorType& type = type_of(trace_, id);
      large |= type.device.is_cpu() && type.nbytes >= kBytesOfKept;
    });
    return large;
  }

  bool may_decline(const Call& region) const {
    const auto code = code_.find(&region);
    return code == code_.end() || !code->second || code->second->checks_elements;
  }

  void note_effects(const Call& call, bool has_targets) {
    if (out_.first_lasting <= out_.instructions.size()) return;
    if (has_targets || has_lasting_effect(call))
      out_.first_lasting = out_.instructions.size();
    else
      out_.draws |= draws(call);
  }

  bool has_lasting_effect(const Call& call) const {
    if (call.gradient) return has_effect(call);
    if (!call.op.aten)
      return std::any_of(call.body.begin(), call.body.end(),
                         [&](const Call& part) { return has_lasting_effect(part); });
    const OpFacts& facts = facts_of(*call.op.aten);
    for (int i : facts.generator_args)
      if (!call.args[i].constant.isNone()) return true;
    bool lasting = !call.retyped.empty();
    for (int i : written_args(call))
      for (ValueId id : call.args[i].values)
        lasting |= id != kNoValue && memory_.given.count(type_of(trace_, id).storage);
    return lasting;
  }

  // Of all its regions at once: an executor may compile several at the same time.
  void make_code(const Executor& executor, const std::vector<Call>& calls) {
    std::vector<const Call*> regions;
    for (const Call& call : calls)
      if (!call.op.aten && !call.gradient && call.executor == executor.name)
        regions.push_back(&call);
    if (regions.empty()) return;
    const auto codes = executor.lower(trace_, regions);
    for (size_t i = 0; i < regions.size(); ++i) code_.emplace(regions[i], codes.at(i));
  }

  // Null: no executor has code for it.
  std::shared_ptr<const CompiledRegion> region(const Call& call) const {
    const auto code = code_.find(&call);
    if (code == code_.end() || !code->second) return nullptr;
    std::vector<ValueId> inputs, outputs;
    for_each_value(call.args, [&](ValueId id) { inputs.push_back(id); });
    for_each_value(call.results, [&](ValueId id) { outputs.push_back(id); });
    std::vector<Call> calls = call.body;
    free_last_used(calls, inputs, outputs);
    CompiledRegion made{call.op.region, title_of(call), code->second,
                        Lowering(trace_, memory_).run(calls, inputs, outputs), nullptr};
    if (options_.keep_inputs) made.last_inputs = std::make_shared<LastInputs>();
    return std::make_shared<const CompiledRegion>(std::move(made));
  }

  static Operand::Kind kind_of(const Call& call, size_t index) {
    const Arg& arg = call.args[index];
    if (call.op.aten) {
      const c10::Argument& schema = call.op.aten->schema().arguments()[index];
      if (takes_number(schema)) return Operand::Kind::Number;
      if (takes_numbers(schema)) return Operand::Kind::Numbers;
    }
    if (arg.kind == Arg::Kind::Value) return Operand::Kind::Tensor;
    return arg.optional_elements ? Operand::Kind::OptionalTensors : Operand::Kind::Tensors;
  }

  Operand operand(const Call& call, size_t index, std::unordered_set<ValueId>& moved) const {
    const Arg& arg = call.args[index];
    Operand r;
    if (arg.kind == Arg::Kind::Constant) {
      r.constant = arg.constant;
      return r;
    }
    r.kind = kind_of(call, index);
    const auto& frees = call.frees;
    r.slots.resize(arg.values.size());
    for (size_t k = arg.values.size(); k-- > 0;) {
      const ValueId id = arg.values[k];
      if (id == kNoValue) continue;
      const bool last =
          std::find(frees.begin(), frees.end(), id) != frees.end() && moved.insert(id).second;
      r.slots[k] = {slot(id), last};
    }
    return r;
  }

  // A value that is not used afterwards goes nowhere; an argument written in place comes as one.
  Result result(const Call& call, const Arg& arg) {
    Result r;
    r.is_list = arg.kind == Arg::Kind::ValueList;
    for (ValueId id : arg.values) {
      const bool unused =
          id == kNoValue || std::find(call.frees.begin(), call.frees.end(), id) != call.frees.end();
      r.slots.push_back(unused ? kNoSlot : define(id));
    }
    return r;
  }

  void free_after(const Call& call, const std::unordered_set<ValueId>& moved) {
    if (out_.instructions.empty()) return;
    for (ValueId id : call.frees)
      if (!moved.count(id) && slots_.count(id)) out_.instructions.back().frees.push_back(slot(id));
  }

  Dispatch dispatch_of(const Call& call) const {
    if (call.mode == GradMode::Inference) return Dispatch::Inference;
    if (trace_.mode == GradMode::Grad)
      return call.mode == GradMode::Grad ? Dispatch::Grad : Dispatch::NoGrad;
    if (!call.op.aten) return call.gradient ? Dispatch::NoGrad : below_autograd();
    if (asks_for_grad(trace_, call)) return Dispatch::NoGrad;
    if (!can_be_seen(call)) return below_autograd();
    return memory_.requires_grad ? Dispatch::NoGrad : Dispatch::Ambient;
  }

  Dispatch below_autograd() const {
    return memory_.requires_grad ? Dispatch::BelowAutogradNoGrad : Dispatch::BelowAutograd;
  }

  // A write to, or a view of, memory that the caller holds too: version counters, the relation of a
  // view to its base, and the grad mode in which it was made must come out as eager's.
  bool can_be_seen(const Call& call) const {
    bool seen = false;
    const auto look = [&](ValueId id) {
      seen |= memory_.visible.count(type_of(trace_, id).storage) > 0;
    };
    const OpFacts& facts = facts_of(*call.op.aten);
    if (facts.is_view || facts.changes_metadata) for_each_value(call.results, look);
    for (int i : written_args(call))
      for (ValueId id : call.args[i].values)
        if (id != kNoValue) look(id);
    return seen;
  }

  const Trace& trace_;
  const TraceMemory& memory_;
  LowerOptions options_;
  Lowered out_;
  std::unordered_map<const Call*, RegionCodePointer> code_;
  Targets targets_;
  std::unordered_map<ValueId, Slot> slots_;
};

}  // namespace

Lowered lower(const Trace& trace, const LowerOptions& options) {
  std::vector<ValueId> inputs;
  for (const Input& input : trace.inputs) inputs.push_back(input.id);
  return Lowering(trace, TraceMemory(trace), options).run(trace.calls, inputs, trace.outputs);
}

Lowered lower(const Trace& trace, std::vector<Call> calls, const std::vector<ValueId>& inputs,
              const std::vector<ValueId>& outputs) {
  free_last_used(calls, inputs, outputs);
  return Lowering(trace, TraceMemory(trace)).run(calls, inputs, outputs);
}

}  // namespace fulgurite
