// The instructions of a plan, and how a trace becomes them.
#pragma once

#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "ir/trace.h"

namespace fulgurite {

using Slot = int32_t;
inline constexpr Slot kNoSlot = -1;

struct SlotUse {
  Slot slot = kNoSlot;
  bool last = false;  // the tensor may be moved out of its slot
};

struct Operand {
  enum class Kind : uint8_t { Constant, Tensor, Tensors, OptionalTensors };
  Kind kind = Kind::Constant;
  c10::SmallVector<SlotUse, 2> slots;
  c10::IValue constant;
};

struct Result {
  bool is_list = false;
  c10::SmallVector<Slot, 2> slots;  // empty: not used
};

// What a call is dispatched through.
enum class Dispatch : uint8_t {
  BelowAutograd,  // no graph, no view tracking, no version counters
  NoGrad,
  Grad,
  Inference,
};

struct Instruction {
  c10::OperatorHandle op;
  std::vector<Operand> operands;
  std::vector<Result> results;
  c10::SmallVector<Slot, 4> frees;  // beyond those moved into operands
  Dispatch dispatch = Dispatch::BelowAutograd;
};

struct Lowered {
  std::vector<Instruction> instructions;
  std::vector<Slot> inputs, outputs;
  Slot slots = 0;
};

// Regions are replaced by their bodies. Throws InternalError for a value without a definition.
Lowered lower(const Trace& trace);

}  // namespace fulgurite
