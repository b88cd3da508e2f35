// The instructions of a plan, and how a trace becomes them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "ir/executor.h"
#include "ir/trace.h"

namespace fulgurite {

using Slot = int32_t;
inline constexpr Slot kNoSlot = -1;

struct SlotUse {
  Slot slot = kNoSlot;
  bool last = false;  // the tensor may be moved out of its slot
};

struct Operand {
  // Number(s): read from 0-dim float64 tensors.
  enum class Kind : uint8_t { Constant, Tensor, Tensors, OptionalTensors, Number, Numbers };
  Kind kind = Kind::Constant;
  c10::SmallVector<SlotUse, 2> slots;
  c10::IValue constant;
};

struct Result {
  bool is_list = false;
  c10::SmallVector<Slot, 2> slots;  // empty, or kNoSlot: not used
};

// What a call is dispatched through.
enum class Dispatch : uint8_t {
  BelowAutograd,  // no graph, no view tracking, no version counters
  // The same with grad mode off, which composites may ask for: of a program with tensors that
  // require grad.
  BelowAutogradNoGrad,
  NoGrad,
  Ambient,  // whether the caller has it on or off: of a program in which nothing requires grad
  Grad,
  Inference,
};

struct CustomFunction;
struct CompiledRegion;
class LineClock;

// Calls an operator, a custom autograd function or a region.
struct Instruction {
  std::optional<c10::OperatorHandle> op;
  std::vector<Operand> operands;
  std::vector<Result> results;
  // Of a region: where results go if they can, per result; kNoSlot, or none at all: new memory.
  c10::SmallVector<Slot, 4> targets;
  bool copies_target = false;       // of such a result, to where it may be already
  c10::SmallVector<Slot, 4> frees;  // beyond those moved into operands
  bool makes_large = false;         // a result of a size that is kept for the next ones
  Dispatch dispatch = Dispatch::BelowAutograd;
  std::shared_ptr<const CustomFunction> custom;
  std::shared_ptr<const CompiledRegion> region;
  int32_t line = 0;  // the number of the call in the trace
};

struct Lowered {
  std::vector<Instruction> instructions;
  // The first one whose effects outlive a run that fails: a write to an input, or a draw from a
  // generator of the program's own. What is drawn from the default generator can be put back.
  size_t first_lasting = static_cast<size_t>(-1);
  bool draws = false;                 // from the default generator, before that
  std::vector<Slot> inputs, outputs;  // kNoSlot: nothing
  Slot slots = 0;
  size_t lines = 0;  // calls of the trace
};

// The tensors that a region was last run on, as they were then.
struct LastInputs {
  std::mutex mutex;
  std::vector<at::Tensor> tensors;
};

// What an executor made of several calls, and these calls.
struct CompiledRegion {
  std::string name;
  std::string title;  // with the operators that it has, as profilers show it
  RegionCodePointer code;
  Lowered calls;
  std::shared_ptr<LastInputs> last_inputs;  // null: not kept
};

struct LowerOptions {
  std::span<const Executor> executors;  // that make the code of regions
  bool keep_inputs = false;             // the last ones of each region
  std::string program;                  // its name, for profilers
};

// A region that no executor has code for is replaced by its body, but for custom autograd
// functions. Throws InternalError for a value without a definition.
Lowered lower(const Trace& trace, const LowerOptions& options = {});

// The same of some calls of a trace that are a program of their own; what each frees is found out.
Lowered lower(const Trace& trace, std::vector<Call> calls, const std::vector<ValueId>& inputs,
              const std::vector<ValueId>& outputs);

// One tensor per input; one per output comes back. `done`: how many instructions have finished,
// also where one throws.
std::vector<at::Tensor> execute(const Lowered& program, std::vector<at::Tensor> inputs,
                                size_t& done, LineClock* clock = nullptr);
std::vector<at::Tensor> execute(const Lowered& program, std::vector<at::Tensor> inputs);

}  // namespace fulgurite
