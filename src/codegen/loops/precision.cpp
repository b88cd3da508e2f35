#include "codegen/loops/precision.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

namespace fulgurite {
namespace {

using c10::ScalarType;

template <class Narrow>
bool holds(float value) {
  return static_cast<float>(Narrow(value)) == value || value != value;
}

bool picks_one(ReductionKind kind) {
  return kind == ReductionKind::Maximum || kind == ReductionKind::Minimum ||
         kind == ReductionKind::MaximumNumber;
}

}  // namespace

bool Precision::fits(const LoopProgram& program, int32_t statement, ScalarType narrow) {
  for (auto i = static_cast<int32_t>(known_.size()); i <= statement; ++i)
    known_.push_back(look(program, program.statements[i]));
  return narrow == ScalarType::Half ? known_[statement].f16 : known_[statement].bf16;
}

Precision::Fits Precision::look(const LoopProgram& program, const ScalarNode& node) const {
  const auto of = [&](int32_t statement) { return known_[statement]; };
  const auto only = [](ScalarType dtype) {
    return Fits{dtype == ScalarType::Half, dtype == ScalarType::BFloat16};
  };
  if (node.dtype != ScalarType::Float) return {};
  switch (node.prim) {
    case Prim::Constant: {
      const auto value = static_cast<float>(double_of(node));
      return {holds<c10::Half>(value), holds<c10::BFloat16>(value)};
    }
    case Prim::Load:
      return only(program.loads[node.at].dtype);
    case Prim::Round:
      return only(static_cast<ScalarType>(node.at));
    case Prim::Neg:
      return of(node.args[0]);
    case Prim::Select: {
      const Fits a = of(node.args[1]), b = of(node.args[2]);
      return {a.f16 && b.f16, a.bf16 && b.bf16};
    }
    case Prim::Reduced: {
      const Reduction& reduction = program.reductions[node.at];
      return picks_one(reduction.kind) ? of(reduction.statement) : Fits{};
    }
    case Prim::Call:
      // A whole number near a narrow one has no more digits.
      return is_rounding(static_cast<Function>(node.at)) ? of(node.args[0]) : Fits{};
    case Prim::Convert: {
      const bool is_bool = program.statements[node.args[0]].dtype == ScalarType::Bool;
      return {is_bool, is_bool};
    }
    default:
      return {};
  }
}

}  // namespace fulgurite
