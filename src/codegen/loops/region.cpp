#include "codegen/loops/region.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"
#include "ir/number_argument.h"
#include "ir/print.h"
#include "ops/facts.h"

namespace fulgurite {
namespace {

using c10::ScalarType;

bool has_form(const OpRecord* record) {
  return record &&
         (record->pointwise || record->row || record->move || record->element || record->draw);
}

void add_producers(Region& region, const Call& call, const OpRecord* record) {
  const bool by_row = reduces_rows(call, *record);
  if (by_row) region.rows.push_back(&call);
  if (record->draw) region.drawn.push_back({&call, record->draw.elements(*region.trace, call)});
  int32_t i = 0;  // of all results, also of those that are None
  for (const Arg& result : call.results) {
    i += result.kind == Arg::Kind::Constant;
    for (ValueId id : result.values) {
      if (id != kNoValue) region.producers[id] = {&call, record, i, by_row};
      ++i;
    }
  }
  region.operators.push_back(call.op.name());
}

// A tensor made of numbers that no other part uses: a composite has it for other devices.
bool is_left_over(const Call& call, const Call& part) {
  bool takes_tensors = false, is_used = false;
  for_each_value(part.args, [&](ValueId) { takes_tensors = true; });
  const auto look = [&](ValueId used) {
    for_each_value(part.results, [&](ValueId id) { is_used |= id == used; });
  };
  for_each_value(call.results, look);
  for (const Call& other : call.body) for_each_value(other.args, look);
  return !takes_tensors && !is_used && !has_effect(part);
}

void add_call(Region& region, const Call& call) {
  const OpRecord* record = call.op.aten ? find_record(*call.op.aten) : nullptr;
  if (has_form(record)) return add_producers(region, call, record);
  if (call.body.empty()) throw Unsupported(fmt::format("{} has no loop form", call.op.name()));
  for (const Call& inner : call.body)
    if (!is_left_over(call, inner)) add_call(region, inner);
}

// Dtypes in three ranks: of tensors with dimensions, without, and of plain numbers. The highest
// rank that has any of the highest category (bool, integer, float) decides, as in ATen.
struct Promotion {
  ScalarType with_dims = ScalarType::Undefined, zero_dim = ScalarType::Undefined,
             number = ScalarType::Undefined;

  static void into(ScalarType& known, ScalarType dtype) {
    known = known == ScalarType::Undefined ? dtype : c10::promoteTypes(known, dtype);
  }
  static ScalarType higher(ScalarType known, ScalarType lower) {
    if (known == ScalarType::Undefined) return lower;
    if (lower == ScalarType::Undefined) return known;
    const auto category = [](ScalarType t) {
      return c10::isComplexType(t) ? 3 : c10::isFloatingType(t) ? 2 : t == ScalarType::Bool ? 0 : 1;
    };
    return category(lower) > category(known) ? c10::promoteTypes(known, lower) : known;
  }
  ScalarType result() const { return higher(with_dims, higher(zero_dim, number)); }

  void add_number(const c10::Scalar& value) {
    ScalarType dtype = value.type();
    if (c10::isFloatingType(dtype)) dtype = c10::get_default_dtype_as_scalartype();
    into(number, dtype);
  }
  void add(const TensorType& type) { into(type.sizes.empty() ? zero_dim : with_dims, type.dtype); }
};

ScalarType common_dtype(const Trace& trace, const Call& call) {
  Promotion promotion;
  const auto& parameters = call.op.aten->schema().arguments();
  for (size_t i = 0; i < call.args.size(); ++i) {
    const Arg& arg = call.args[i];
    if (arg.kind == Arg::Kind::Value && arg.values[0] != kNoValue) {
      if (takes_number(parameters[i]))
        promotion.add_number(0.0);  // one that the program computes is a float
      else
        promotion.add(type_of(trace, arg.values[0]));
    }
    if (arg.kind != Arg::Kind::Constant) continue;
    if (arg.constant.isTensor())
      promotion.add_number(arg.constant.toTensor().item());
    else if (arg.constant.isScalar())
      promotion.add_number(arg.constant.toScalar());
  }
  return promotion.result();
}

bool same_generator(const std::optional<at::Generator>& a, const std::optional<at::Generator>& b) {
  return a.has_value() == b.has_value() && (!a || *a == *b);
}

}  // namespace

bool reduces_rows(const Call& call, const OpRecord& record) {
  if (!record.row || !record.row.when) return static_cast<bool>(record.row);
  const auto index = call.op.aten->schema().argumentIndexWithName(record.row.when);
  require(index.has_value(), "{} has no argument {}", call.op.name(), record.row.when);
  const c10::IValue& value = call.args.at(*index).constant;
  return value.isInt() ? value.toInt() != 0 : value.toBool();
}

std::optional<at::Generator> generator_of(const DrawnInput& drawn) {
  if (drawn.elements.generator < 0) return std::nullopt;
  return drawn.call->args.at(drawn.elements.generator).constant.toGenerator();
}

std::string refuse_dtype(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Bool:
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Short:
    case ScalarType::Int:
    case ScalarType::Long:
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Float:
    case ScalarType::Double:
      return "";
    default:
      return fmt::format("{} is computed by no loop", c10::toString(dtype));
  }
}

std::string refuse_type(const TensorType& type) {
  if (!type.device.is_cpu()) return fmt::format("a tensor on {}", type.device.str());
  if (type.conj || type.neg) return "a lazy conjugate or negative";
  return refuse_dtype(type.dtype);
}

ScalarType nominal_dtype(const Trace& trace, const Call& call, const PointwiseRule& rule) {
  switch (rule.computes_in) {
    case ComputesIn::Result:
      return type_of(trace, call.results.at(0).values.at(0)).dtype;
    case ComputesIn::First:
      return type_of(trace, call.args.at(0).values.at(0)).dtype;
    case ComputesIn::Operands:
      return common_dtype(trace, call);
  }
  internal_error("a dtype of no name");
}

Region make_region(const Trace& trace, std::span<const Call> calls, c10::ArrayRef<ValueId> inputs) {
  Region region;
  region.trace = &trace;
  for (ValueId id : inputs) {
    const auto buffer = static_cast<int32_t>(region.inputs.size());
    require(region.inputs.emplace(id, buffer).second, "one input twice");
    if (auto reason = refuse_type(region.type(id)); !reason.empty()) throw Unsupported(reason);
  }
  for (const Call& call : calls) add_call(region, call);
  for (const DrawnInput& drawn : region.drawn)
    if (!same_generator(generator_of(drawn), generator_of(region.drawn[0])))
      throw Unsupported("numbers of several generators");
  for (const auto& [id, producer] : region.producers)
    if (auto reason = refuse_type(region.type(id)); !reason.empty()) throw Unsupported(reason);
  return region;
}

}  // namespace fulgurite
