#include "codegen/loops/lower.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/loops/collapse.h"
#include "codegen/loops/place.h"
#include "codegen/loops/prune.h"
#include "codegen/loops/region.h"

namespace fulgurite {
namespace {

using c10::ScalarType;

RuleArg constant_arg(const c10::IValue& value) {
  RuleArg arg;
  arg.constant = &value;
  return arg;
}

class Lowering {
 public:
  Lowering(const Region& region, c10::ArrayRef<ValueId> outputs) : region_(region) {
    const TensorType& first = region.type(outputs.at(0));
    for (ValueId id : outputs)
      if (region.type(id).sizes != first.sizes) throw Unsupported("outputs of several shapes");
    choose_loops(first);
    program_.inputs = static_cast<int32_t>(region.inputs.size());
    program_.outputs = static_cast<int32_t>(outputs.size());
    program_.operators = region.operators;
    for (ValueId id : outputs) add_store(id);
  }

  LoopProgram finish() && {
    prune(program_);
    collapse(program_);
    return std::move(program_);
  }

 private:
  // Dimensions of more than one element, in the order in which the output lies in memory.
  void choose_loops(const TensorType& output) {
    std::vector<size_t> order(output.sizes.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::erase_if(order, [&](size_t d) { return output.sizes[d] == 1; });
    std::ranges::stable_sort(order, std::greater{}, [&](size_t d) { return output.strides[d]; });
    for (size_t d : order) program_.sizes.push_back(output.sizes[d]);
    if (order.empty()) program_.sizes.push_back(1);
    const size_t rank = program_.sizes.size();
    domain_.assign(output.sizes.size(), constant_index(0, rank));
    for (size_t i = 0; i < order.size(); ++i) domain_[order[i]] = loop_index(i, rank);
  }

  void add_store(ValueId id) {
    const TensorType& type = region_.type(id);
    const Scalar value = value_at(id, domain_);
    const auto buffer = program_.inputs + static_cast<int32_t>(program_.stores.size());
    program_.stores.push_back({access(buffer, type, domain_).first, value.node});
  }

  // The access to a tensor at a place, and what is to be added to its offset.
  std::pair<Access, IndexTerm> access(int32_t buffer, const TensorType& type, const Place& place) {
    IndexTerm offset = constant_index(0, program_.sizes.size());
    for (size_t d = 0; d < place.size(); ++d)
      offset = plus(graph(), offset, scaled(graph(), place[d], type.strides[d], 0));
    return {{buffer, type.dtype, offset.constant, offset.coefficients}, offset};
  }

  ScalarGraph& graph() { return program_.statements; }

  Scalar load(int32_t buffer, const TensorType& type, const Place& place) {
    const auto [at, offset] = access(buffer, type, place);
    const auto known = std::ranges::find(program_.loads, at);
    const auto number = static_cast<int32_t>(known - program_.loads.begin());
    if (known == program_.loads.end()) program_.loads.push_back(at);
    const ScalarNode node{.prim = Prim::Load,
                          .dtype = computed_in(type.dtype),
                          .at = number,
                          .args = {offset.statement, -1, -1}};
    return {&graph(), graph().add(node)};
  }

  // The element of a value at a place, in the dtype in which it is computed.
  Scalar value_at(ValueId id, const Place& place) {
    const auto [it, fresh] = known_.try_emplace({id, key_of(place)}, -1);
    if (fresh) {
      const int32_t node = compute(id, place).node;
      known_[{id, key_of(place)}] = node;
      return {&graph(), node};
    }
    return {&graph(), it->second};
  }

  Scalar compute(ValueId id, const Place& place) {
    const TensorType& type = region_.type(id);
    if (const auto input = region_.inputs.find(id); input != region_.inputs.end())
      return load(input->second, type, place);
    const auto it = region_.producers.find(id);
    if (it == region_.producers.end())
      throw Unsupported(fmt::format("t{} comes from outside of the region", id));
    return apply(it->second, type, place);
  }

  Scalar apply(const Producer& producer, const TensorType& type, const Place& place) {
    const PointwiseRule& rule = producer.record->pointwise;
    std::vector<RuleArg> args;
    for (const Arg& arg : producer.call->args) args.push_back(operand(arg, rule, place));
    const RuleCall call{.graph = &graph(),
                        .nominal = nominal_dtype(*region_.trace, *producer.call, rule),
                        .rounds_numbers = rule.rounds_numbers,
                        .args = args};
    if (const auto reason = refuse_dtype(call.nominal); !reason.empty()) throw Unsupported(reason);
    return convert(rule.run(call)[producer.result], computed_in(type.dtype));
  }

  RuleArg operand(const Arg& arg, const PointwiseRule& rule, const Place& place) {
    if (arg.kind == Arg::Kind::Constant) return constant_arg(arg.constant);
    static const c10::IValue none;
    if (arg.kind == Arg::Kind::ValueList) throw Unsupported("a list of tensors");
    if (arg.values[0] == kNoValue) return constant_arg(none);
    const TensorType& type = region_.type(arg.values[0]);
    Scalar value = value_at(arg.values[0], broadcast(type, place));
    const Prim made_by = graph()[value.node].prim;
    if (rule.jumps && computed_in(type.dtype) != type.dtype && made_by != Prim::Load)
      value = round_to(value, type.dtype);
    return {value, type.dtype, type.sizes.empty(), nullptr};
  }

  // The place in an operand of an element of the result.
  Place broadcast(const TensorType& operand, const Place& place) const {
    if (operand.sizes.size() > place.size())
      throw Unsupported("an operand of more dimensions than the result");
    const size_t missing = place.size() - operand.sizes.size();
    Place at(place.begin() + static_cast<std::ptrdiff_t>(missing), place.end());
    for (size_t d = 0; d < at.size(); ++d)
      if (operand.sizes[d] == 1) at[d] = constant_index(0, program_.sizes.size());
    return at;
  }

  const Region& region_;
  LoopProgram program_;
  Place domain_;  // of an element of the outputs
  std::map<std::pair<ValueId, std::vector<int64_t>>, int32_t> known_;
};

}  // namespace

std::variant<LoopProgram, Refusal> lower_region(const Trace& trace, std::span<const Call> calls,
                                                c10::ArrayRef<ValueId> inputs,
                                                c10::ArrayRef<ValueId> outputs) {
  try {
    if (outputs.empty()) return Refusal("nothing is computed");
    const Region region = make_region(trace, calls, inputs);
    return Lowering(region, outputs).finish();
  } catch (const Unsupported& reason) {
    return Refusal(reason.what());
  }
}

Refusal refuse_in_loops(const Trace& trace, const Call& call) {
  try {
    make_region(trace, {&call, 1}, {});
    return "";
  } catch (const Unsupported& reason) {
    return reason.what();
  }
}

}  // namespace fulgurite
