#include "codegen/loops/lower.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/loops/collapse.h"
#include "codegen/loops/domain.h"
#include "codegen/loops/precision.h"
#include "codegen/loops/prune.h"
#include "codegen/loops/region.h"
#include "codegen/loops/rows.h"
#include "ir/layout.h"
#include "ops/place.h"

namespace fulgurite {
namespace {

using c10::ScalarType;

// Parts of parts multiply.
constexpr int32_t kMostStatements = 4096;

RuleArg constant_arg(const c10::IValue& value) {
  RuleArg arg;
  arg.constant = &value;
  return arg;
}

class Lowering {
 public:
  Lowering(const Region& region, c10::ArrayRef<ValueId> outputs, Domain::Splits& splits)
      : region_(region),
        rows_(rows_of(region)),
        splits_(splits),
        domain_(region.type(rows_ ? rows_->input : first_with_elements(outputs)),
                rows_ ? &rows_->dims : nullptr, splits) {
    program_.sizes = domain_.loops();
    program_.reduced = domain_.reduced();
    program_.inputs = static_cast<int32_t>(region.inputs.size() + region.drawn.size());
    for (const DrawnInput& drawn : region.drawn)
      program_.drawn.push_back(
          {numel(drawn.elements.type), drawn.elements.type.dtype == ScalarType::Long ? 2 : 1});
    if (!region.drawn.empty()) program_.generator = generator_of(region.drawn[0]);
    program_.outputs = static_cast<int32_t>(outputs.size());
    program_.operators = region.operators;
  }

  void add_outputs(c10::ArrayRef<ValueId> outputs) {
    for (size_t i = 0; i < outputs.size(); ++i)
      add_store(outputs[i], program_.inputs + static_cast<int32_t>(i));
    if (program_.stores.empty()) throw Unsupported("nothing is computed");
    order_passes(program_);
  }

  // Calls of which no element was read, but for moves.
  std::set<const Call*> unread() const {
    std::set<const Call*> calls;
    for (const auto& [id, producer] : region_.producers)
      if (!producer.record->move) calls.insert(producer.call);
    for (const auto& [read, statement] : known_)
      if (const auto it = region_.producers.find(read.first); it != region_.producers.end())
        calls.erase(it->second.call);
    return calls;
  }

  // The loop that is to be split, as a dimension of the domain and a stride.
  void note_split(const SplitLoop& split) {
    const auto [dimension, stride] = domain_.of_loop(split.loop);
    splits_[dimension].insert(stride * split.inner);
  }

  LoopProgram finish() && {
    prune(program_);
    collapse(program_);
    refuse_empty_rows(program_);
    program_.columns = has_columns(program_);
    const int32_t lane = program_.lane_dimension();
    for (Store& store : program_.stores)  // the stride of a single element, or of none, is any
      if (program_.sizes[lane] == 1 || program_.places() == 0) store.access.strides[lane] = 1;
    refuse_order(program_);
    return std::move(program_);
  }

 private:
  // Statistics that are not asked for may have none.
  ValueId first_with_elements(c10::ArrayRef<ValueId> outputs) const {
    const auto found =
        std::ranges::find_if(outputs, [&](ValueId id) { return numel(region_.type(id)) > 0; });
    return found == outputs.end() ? outputs.at(0) : *found;
  }

  void add_store(ValueId id, int32_t buffer) {
    const TensorType& type = region_.type(id);
    const Dims& sizes = domain_.sizes();
    if (numel(type) == 0 && std::ranges::find(sizes, 0) == sizes.end()) return;
    bool per_row = false;
    const Place place = domain_.place_of(graph(), type.sizes, per_row);
    const Scalar value = value_at(id, place);
    program_.stores.push_back({access(buffer, type, place).first, value.node, per_row});
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
    auto [at, offset] = access(buffer, type, place);
    at.by_lane = offset.statement >= 0 || guard_ >= 0;
    const auto known = std::ranges::find(program_.loads, at);
    const auto number = static_cast<int32_t>(known - program_.loads.begin());
    if (known == program_.loads.end()) program_.loads.push_back(at);
    const ScalarNode node{.prim = Prim::Load,
                          .dtype = computed_in(type.dtype),
                          .at = number,
                          .args = {offset.statement, guard_, -1}};
    return {&graph(), graph().add(node)};
  }

  // The element of a value at a place, in the dtype in which it is computed.
  Scalar value_at(ValueId id, const Place& place) {
    std::vector<int64_t> key = key_of(place);
    key.push_back(guard_);
    const auto [it, fresh] = known_.try_emplace({id, key}, -1);
    if (!fresh) return {&graph(), it->second};
    const int32_t node = compute(id, place).node;
    if (graph().size() > kMostStatements) throw Unsupported("too many statements for one loop");
    known_[{id, key}] = node;
    return {&graph(), node};
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
    const size_t checks = graph().checks.size();
    const Scalar x = apply_rule(producer, type, place);
    if (graph().checks.size() > checks &&
        (guard_ >= 0 || numel(type) == 0 || !covers(place, type.sizes, program_.sizes)))
      throw Unsupported("not all that would raise an error is read");
    return x;
  }

  Scalar apply_rule(const Producer& producer, const TensorType& type, const Place& place) {
    if (producer.record->element) return apply_element(producer, type, place);
    if (producer.reduces) return apply_row(producer, type, place);
    if (producer.record->move) return apply_move(producer, type, place);
    if (producer.record->draw) return apply_draw(producer, type, place);
    const PointwiseRule& rule = producer.record->pointwise;
    const std::vector<RuleArg> args = operands(*producer.call, place, rule.by_channel);
    const RuleCall call{.graph = &graph(),
                        .nominal = nominal_dtype(*region_.trace, *producer.call, rule),
                        .rounds_numbers = rule.rounds_numbers,
                        .args = args};
    if (const auto reason = refuse_dtype(call.nominal); !reason.empty()) throw Unsupported(reason);
    return convert(rule.run(call)[producer.result], computed_in(type.dtype));
  }

  Scalar apply_draw(const Producer& producer, const TensorType& type, const Place& place) {
    const auto drawn = std::ranges::find(region_.drawn, producer.call, &DrawnInput::call);
    const auto buffer = region_.inputs.size() + (drawn - region_.drawn.begin());
    std::vector<RuleArg> args;
    for (const Arg& arg : producer.call->args) args.push_back(operand(arg, place));
    const DrawCall call{.graph = &graph(),
                        .nominal = region_.type(producer.call->results.at(0).values.at(0)).dtype,
                        .args = args,
                        .word = load(static_cast<int32_t>(buffer), drawn->elements.type, place)};
    return convert(producer.record->draw.run(call)[producer.result], computed_in(type.dtype));
  }

  Scalar apply_move(const Producer& producer, const TensorType& type, const Place& place) {
    std::vector<const c10::IValue*> constants;
    for (const Arg& arg : producer.call->args)
      constants.push_back(arg.kind == Arg::Kind::Constant ? &arg.constant : nullptr);
    const ValueId source = producer.call->args.at(0).values.at(0);
    const MoveCall call{&graph(),    &program_.sizes, &region_.type(source).sizes,
                        &type.sizes, producer.result, constants};
    return value_at(source, producer.record->move.run(call, place));
  }

  Scalar apply_element(const Producer& producer, const TensorType& type, const Place& place) {
    ElementCall call;
    call.graph = &graph();
    call.loops = &program_.sizes;
    call.result = &type;
    call.which = producer.result;
    call.trace = region_.trace;
    call.args = producer.call->args;
    call.read = [&](const ElementSource& source, const Place& at) {
      const bool moved = source.type->dtype == type.dtype;
      return moved ? value_at(source.id, at) : stored(source.id, at);
    };
    call.stored = [&](const ElementSource& source, const Place& at) {
      return stored(source.id, at);
    };
    call.where = [&](Scalar condition, const std::function<Scalar()>& read) {
      const int32_t outer = guard_, known = graph().size();
      guard_ = (outer < 0 ? condition : Scalar{&graph(), outer} & condition).node;
      const Scalar x = read();
      guard_ = outer;
      for (int32_t i = known; i < graph().size(); ++i)
        if (graph()[i].takes_long()) throw Unsupported("a part that takes long to compute");
      return x;
    };
    return convert(producer.record->element.run(call, place), computed_in(type.dtype));
  }

  Scalar apply_row(const Producer& producer, const TensorType& type, const Place& place) {
    const RowRule& rule = producer.record->row;
    if (is_norm(rule) && numel(region_.type(rows_->input)) == 0)
      throw Unsupported("normalised rows without elements");
    if (producer.call != rows_->first && row_dims(region_, producer) != rows_->dims)
      throw Unsupported("reductions over several dimensions");
    if (domain_.sizes() != input_of(region_, producer).sizes)
      throw Unsupported("reductions of several shapes");
    const bool elsewhere = is_elsewhere(type.sizes, place);
    RowRuleCall call;
    call.graph = &graph();
    call.nominal = nominal_of_row(producer);
    call.elements = domain_.elements_of_row();
    call.without_dimensions = domain_.sizes().empty();
    std::vector<Scalar> known;
    call.reduction = [&](ReductionKind kind, Scalar x, bool sampled) {
      known.push_back(reduction({kind, x.node, sampled, 0}));
      return known.back();
    };
    call.count = [&](ScalarType dtype, bool sampled) {
      const Scalar n{
          &graph(),
          graph().add({.prim = Prim::Count, .dtype = ScalarType::Long, .at = sampled ? 1 : 0})};
      return convert(n, dtype);
    };
    call.index = [&] { return to_statement(graph(), domain_.index_in_row(graph())); };
    const int32_t guard = std::exchange(guard_, -1);  // a row is gone through as a whole
    std::vector<RuleArg> args = row_args(producer, domain_.place());
    call.args = args;
    Scalar x = rule.run(call)[producer.result];
    guard_ = guard;
    if (elsewhere) {  // the same reductions, and another element
      size_t next = 0;
      call.reduction = [&](ReductionKind, Scalar, bool) { return known.at(next++); };
      call.index = []() -> Scalar { throw Unsupported("the number of another place in a row"); };
      args = row_args(producer, place);
      call.args = args;
      x = rule.run(call)[producer.result];
      if (is_running(graph()[x.node].prim))
        throw Unsupported("a running sum is read at other places");
    }
    return convert(x, computed_in(type.dtype));
  }

  static bool is_norm(const RowRule& rule) {
    return rule.reduces != Reduces::All && rule.reduces != Reduces::Dims &&
           rule.reduces != Reduces::Factor;
  }

  // Whether a result of a reduction is read at another place of the row than the loops are at.
  bool is_elsewhere(const Dims& sizes, const Place& place) const {
    if (sizes == domain_.sizes()) {
      if (place == domain_.place()) return false;
      if (domain_.is_in_row(place)) return true;
    } else if (domain_.row_place(sizes) == place || domain_.is_row_place(sizes, place)) {
      return false;
    }
    throw Unsupported("the result of a reduction is read at other places");
  }

  std::vector<RuleArg> row_args(const Producer& producer, const Place& place) {
    const Reduces reduces = producer.record->row.reduces;
    if (reduces == Reduces::Factor) return product_args(producer, place);
    const bool by_channel = reduces == Reduces::Batch || reduces == Reduces::Groups;
    if (!by_channel)
      for_each_value(producer.call->args,
                     [&](ValueId id) { check_spreads(region_.type(id).sizes); });
    return operands(*producer.call, place, by_channel);
  }

  // A matrix, a vector, and what is added to the result.
  std::vector<RuleArg> product_args(const Producer& producer, const Place& place) {
    const RowRule& rule = producer.record->row;
    const Dims& result = region_.type(first_value(*producer.call)).sizes;
    const size_t rank = place.size(), loops = program_.sizes.size();
    Place along(place.begin(), place.end() - 2);  // of a batch
    if (rule.over > rule.vector) along.push_back(constant_index(0, loops));
    along.push_back(place[rule.over < rule.vector ? rank - 1 : rank - 2]);
    std::vector<RuleArg> args;
    for (size_t i = 0; i < producer.call->args.size(); ++i) {
      const Arg& arg = producer.call->args[i];
      if (const auto known = constant_operand(arg))
        args.push_back(*known);
      else if (static_cast<int32_t>(i) == rule.over)
        args.push_back(read_operand(arg, place));
      else if (static_cast<int32_t>(i) == rule.vector)
        args.push_back(read_operand(arg, along));
      else
        args.push_back(read_operand(arg, broadcast(region_.type(arg.values[0]).sizes,
                                                   domain_.row_place(result).value(), loops)));
    }
    return args;
  }

  // Over the rows, whose shape is that of the first argument alone.
  void check_spreads(const Dims& sizes) const {
    const Dims& rows = domain_.sizes();
    bool fits = sizes.size() <= rows.size();
    for (size_t d = 0; fits && d < sizes.size(); ++d)
      fits = sizes[d] == 1 || sizes[d] == rows[rows.size() - sizes.size() + d];
    if (!fits) throw Unsupported("an argument that the rows have no places for");
  }

  std::vector<RuleArg> operands(const Call& call, const Place& place, bool by_channel) {
    const Dims& sizes =
        by_channel ? region_.type(call.args.at(0).values.at(0)).sizes : domain_.sizes();
    if (by_channel && sizes.size() < 2) throw Unsupported("an argument without channels");
    std::vector<RuleArg> args;
    for (const Arg& arg : call.args)
      args.push_back(by_channel ? channel_operand(arg, place, sizes[1]) : operand(arg, place));
    return args;
  }

  // What a reduction is computed in: the first result's dtype; of bools, that of the argument.
  ScalarType nominal_of_row(const Producer& producer) const {
    return region_.type(first_value(*producer.call)).dtype;
  }

  Scalar reduction(const Reduction& wanted) {
    auto& all = program_.reductions;
    const auto known = std::ranges::find(all, wanted);
    const auto number = static_cast<int32_t>(known - all.begin());
    if (known == all.end()) all.push_back(wanted);
    return {&graph(),
            graph().add(
                {.prim = Prim::Reduced, .dtype = graph()[wanted.statement].dtype, .at = number})};
  }

  RuleArg operand(const Arg& arg, const Place& place) {
    if (const auto known = constant_operand(arg)) return *known;
    const TensorType& type = region_.type(arg.values[0]);
    return read_operand(arg, broadcast(type.sizes, place, program_.sizes.size()));
  }

  // Of tensors of one dimension, the element of the channel; of statistics, that of the row.
  RuleArg channel_operand(const Arg& arg, const Place& place, int64_t channels) {
    if (const auto known = constant_operand(arg)) return *known;
    const Dims& sizes = region_.type(arg.values[0]).sizes;
    static const c10::IValue none;
    if (sizes.size() == 1 && sizes[0] == 0) return constant_arg(none);  // statistics not asked for
    if (sizes.size() == 1 && sizes[0] != channels) throw Unsupported("numbers of other channels");
    if (sizes.size() == 1 && place.size() > 1)
      return read_operand(arg, broadcast(sizes, {place[1]}, program_.sizes.size()));
    if (sizes.size() == 2 && rows_ && sizes != domain_.sizes())
      if (const auto row = domain_.row_place(sizes)) return read_operand(arg, *row);
    return operand(arg, place);
  }

  static std::optional<RuleArg> constant_operand(const Arg& arg) {
    if (arg.kind == Arg::Kind::Constant) return constant_arg(arg.constant);
    static const c10::IValue none;
    if (arg.kind == Arg::Kind::ValueList) throw Unsupported("a list of tensors");
    if (arg.values[0] == kNoValue) return constant_arg(none);
    return std::nullopt;
  }

  RuleArg read_operand(const Arg& arg, const Place& at) {
    const TensorType& type = region_.type(arg.values[0]);
    return {stored(arg.values[0], at), type.dtype, type.sizes.empty(), nullptr};
  }

  // The element as it is in memory, or would be: of a narrow float, rounded to it.
  Scalar stored(ValueId id, const Place& place) {
    const ScalarType dtype = region_.type(id).dtype;
    const Scalar value = value_at(id, place);
    const bool fits = computed_in(dtype) == dtype || precision_.fits(program_, value.node, dtype);
    return fits ? value : round_to(value, dtype);
  }

  const Region& region_;
  const std::optional<Rows> rows_;
  Domain::Splits& splits_;
  const Domain domain_;
  LoopProgram program_;
  Precision precision_;
  int32_t guard_ = -1;  // a condition without which nothing is read
  std::map<std::pair<ValueId, std::vector<int64_t>>, int32_t> known_;
};

std::variant<LoopProgram, Refusal> lower_alone(const Trace& trace, const Call& call,
                                               bool only_first = false);

// Whether a call raises an error where data say so, or may.
bool raises(const Trace& trace, const Call& call) {
  const auto lowered = lower_alone(trace, call);
  const auto* program = std::get_if<LoopProgram>(&lowered);
  return !program || !program->statements.checks.empty();
}

// With more loops where a reshape needs them.
LoopProgram lower(const Region& region, c10::ArrayRef<ValueId> outputs) {
  constexpr int kMostSplits = 16;
  Domain::Splits splits;
  for (int i = 0; i < kMostSplits; ++i) {
    Lowering lowering(region, outputs, splits);
    try {
      lowering.add_outputs(outputs);
      for (const Call* call : lowering.unread())
        if (raises(*region.trace, *call))
          throw Unsupported("an error that is raised where no element is read");
      return std::move(lowering).finish();
    } catch (const SplitLoop& split) {
      lowering.note_split(split);
    }
  }
  throw Unsupported("reshapes that need too many loops");
}

// A view of an input, or of another output, is to share its memory: no loop gives that.
void check_memory(const Region& region, c10::ArrayRef<ValueId> outputs) {
  std::set<StorageId> taken;
  for (const auto& [id, buffer] : region.inputs) taken.insert(region.type(id).storage);
  for (ValueId id : outputs) {
    const TensorType& type = region.type(id);
    if (numel(type) > 0 && !is_injective(type))
      throw Unsupported("a result whose elements share memory");
    const StorageId storage = type.storage;
    if (storage != kNoStorage && !taken.insert(storage).second)
      throw Unsupported("a result shares memory with an input or with another result");
  }
}

// own_memory: whether each output is written to memory of its own.
std::variant<LoopProgram, Refusal> lower_calls(const Trace& trace, std::span<const Call> calls,
                                               c10::ArrayRef<ValueId> inputs,
                                               c10::ArrayRef<ValueId> outputs, bool own_memory) {
  try {
    if (outputs.empty()) return Refusal("nothing is computed");
    const Region region = make_region(trace, calls, inputs);
    if (own_memory) check_memory(region, outputs);
    return lower(region, outputs);
  } catch (const Unsupported& reason) {
    return Refusal(reason.what());
  } catch (const c10::Error& fault) {  // an argument of another kind than the rule expects
    return Refusal(fault.what_without_backtrace());
  }
}

std::variant<LoopProgram, Refusal> lower_alone(const Trace& trace, const Call& call,
                                               bool only_first) {
  c10::SmallVector<ValueId, 8> inputs, outputs;
  for_each_value(call.args, [&](ValueId id) {
    if (std::ranges::find(inputs, id) == inputs.end()) inputs.push_back(id);
  });
  for_each_value(call.results, [&](ValueId id) { outputs.push_back(id); });
  if (only_first) outputs.resize(1);
  // A view in the midst of a region is written nowhere.
  return lower_calls(trace, {&call, 1}, inputs, outputs, false);
}

}  // namespace

std::variant<LoopProgram, Refusal> lower_region(const Trace& trace, std::span<const Call> calls,
                                                c10::ArrayRef<ValueId> inputs,
                                                c10::ArrayRef<ValueId> outputs) {
  return lower_calls(trace, calls, inputs, outputs, true);
}

Refusal refuse_in_loops(const Trace& trace, const Call& call) {
  const auto lowered = lower_alone(trace, call);
  const auto* reason = std::get_if<Refusal>(&lowered);
  if (!reason) return "";
  // Of several results, all need not be used.
  if (call.results.size() < 2 || call.results[0].kind != Arg::Kind::Value) return *reason;
  const auto first = lower_alone(trace, call, true);
  return std::holds_alternative<Refusal>(first) ? *reason : "";
}

}  // namespace fulgurite
