// The calls of a region, each with a loop form, and who makes which value.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include <ATen/core/Generator.h>

#include "ir/trace.h"
#include "ops/catalogue.h"

namespace fulgurite {

// A call, and which of its results a value is (an element of a list counts as one).
struct Producer {
  const Call* call = nullptr;
  const OpRecord* record = nullptr;
  int32_t result = 0;
  bool reduces = false;  // by its row rule
};

// The random numbers that a call draws, as an input of its own.
struct DrawnInput {
  const Call* call = nullptr;
  DrawnElements elements;
};

struct Region {
  const Trace* trace = nullptr;
  std::unordered_map<ValueId, Producer> producers;
  std::unordered_map<ValueId, int32_t> inputs;  // by value, its buffer
  std::vector<const Call*> rows;                // those that reduce
  std::vector<DrawnInput> drawn;                // in order; buffers after those of the inputs
  std::vector<std::string> operators;

  const TensorType& type(ValueId id) const { return type_of(*trace, id); }
};

// Nothing: the default one.
std::optional<at::Generator> generator_of(const DrawnInput& drawn);

// Throws Unsupported where a call has no loop form.
Region make_region(const Trace& trace, std::span<const Call> calls, c10::ArrayRef<ValueId> inputs);

// Whether the call of an operator with this record reduces rows.
bool reduces_rows(const Call& call, const OpRecord& record);

// Why values of this dtype or type are in no loop program; "" if they may be.
std::string refuse_dtype(c10::ScalarType dtype);
std::string refuse_type(const TensorType& type);

// The dtype in which a rule of `call` computes, as ATen names it.
c10::ScalarType nominal_dtype(const Trace& trace, const Call& call, const PointwiseRule& rule);

}  // namespace fulgurite
