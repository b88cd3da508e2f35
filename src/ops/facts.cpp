#include "ops/facts.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "base/error.h"
#include "ops/catalogue.h"
#include "ops/per_operator.h"

namespace fulgurite {
namespace {

using c10::FunctionSchema;

std::atomic<uint64_t> unregistered{0};

class Listener final : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle&) override {}
  void onOperatorDeregistered(const c10::OperatorHandle&) override { ++unregistered; }
};

int argument(const FunctionSchema& schema, const char* name) {
  const auto index = schema.argumentIndexWithName(name);
  require(index.has_value(), "{} has no argument {}", schema.name(), name);
  return *index;
}

void read_arguments(const FunctionSchema& schema, OpFacts& facts) {
  int i = 0;
  for (const c10::Argument& arg : schema.arguments()) {
    c10::TypePtr type = arg.type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (type->kind() == c10::TypeKind::DeviceObjType) facts.device_arg = i;
    if (type->kind() == c10::TypeKind::GeneratorType) facts.generator_args.push_back(i);
    if (arg.name() == "pin_memory") facts.pin_arg = i;
    if (arg.alias_info() && arg.alias_info()->isWrite()) facts.written.push_back(i);
    ++i;
  }
}

void read_returns(const FunctionSchema& schema, OpFacts& facts) {
  int i = 0;
  for (const c10::Argument& result : schema.returns()) {
    if (!result.alias_info() || !result.alias_info()->isWrite()) facts.plain_returns.push_back(i);
    if (result.alias_info() && !result.alias_info()->isWrite()) facts.is_view = true;
    ++i;
  }
}

void read_tags(c10::ArrayRef<at::Tag> tags, OpFacts& facts) {
  for (at::Tag tag : tags) {
    facts.random |= tag == at::Tag::nondeterministic_seeded;
    facts.reads_data |=
        tag == at::Tag::data_dependent_output || tag == at::Tag::dynamic_output_shape;
    facts.changes_metadata |= tag == at::Tag::inplace_view;
    facts.is_view |= tag == at::Tag::maybe_aliasing_or_mutating;
  }
}

void read_record(const OpRecord& record, const FunctionSchema& schema, OpFacts& facts) {
  facts.hidden_write_flag = record.hidden_writes.flag;
  for (const char* name : record.hidden_writes.args)
    if (name) facts.written.push_back(argument(schema, name));
  for (const char* name : record.draws_when)
    if (name) facts.draws_when.push_back(argument(schema, name));
  facts.random |= record.random;
  facts.is_assert |= record.effect;
  facts.changes_metadata |= record.changes_metadata;
  facts.reads_data |= record.reads_data;
  facts.checks_data = record.checks_data;
  if (record.fixed_shape) facts.reads_data = false;
}

OpFacts make_facts(const c10::OperatorHandle& op) {
  OpFacts facts;
  if (!op.hasSchema()) return facts;
  const FunctionSchema& schema = op.schema();
  read_arguments(schema, facts);
  read_returns(schema, facts);
  read_tags(op.getTags(), facts);
  facts.random |= !facts.generator_args.empty();
  if (const OpRecord* record = find_record(op)) read_record(*record, schema, facts);
  const bool silent = schema.returns().empty() && facts.written.empty() && !schema.is_varret();
  facts.is_assert |= silent || in_effectful_namespace(schema.name());
  return facts;
}

bool holds_tensor(const Arg& arg) {
  for (ValueId id : arg.values)
    if (id != kNoValue) return true;
  return false;
}

// True unless the argument is a constant false or 0.
bool may_be_on(const Arg& arg) {
  if (arg.kind != Arg::Kind::Constant) return true;
  const c10::IValue& value = arg.constant;
  if (value.isBool()) return value.toBool();
  if (value.isDouble()) return value.toDouble() != 0;
  if (value.isInt()) return value.toInt() != 0;
  return true;
}

// Whether the body writes to something that it did not make.
bool body_writes_outside(const Call& frame) {
  std::unordered_set<ValueId> own;
  const auto is_own = [&](ValueId id) { return own.contains(id); };
  for (const Call& call : frame.body) {
    for (int i : written_args(call))
      for (ValueId id : call.args[i].values)
        if (id != kNoValue && !is_own(id)) return true;
    if (body_writes_outside(call)) return true;
    bool fresh = true;  // results hold memory of this body's own
    if (!call.op.aten || facts_of(*call.op.aten).is_view)
      for_each_value(call.args, [&](ValueId id) { fresh = fresh && is_own(id); });
    if (!fresh) continue;
    for_each_value(call.results, [&](ValueId id) { own.insert(id); });
  }
  return false;
}

bool body_asserts(const Call& frame) {
  for (const Call& call : frame.body)
    if ((call.op.aten && facts_of(*call.op.aten).is_assert) || body_asserts(call)) return true;
  return false;
}

}  // namespace

uint64_t operators_unregistered() {
  // Never taken back: the dispatcher lives as long as the process.
  static const auto* registration = new c10::RegistrationHandleRAII(
      c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<Listener>()));
  (void)registration;
  return unregistered.load(std::memory_order_acquire);
}

const OpFacts& facts_of(const c10::OperatorHandle& op) { return per_operator<&make_facts>(op); }

c10::SmallVector<int, 2> written_args(const Call& call) {
  if (!call.op.aten) return {};
  const OpFacts& facts = facts_of(*call.op.aten);
  c10::SmallVector<int, 2> written;
  const char* flag = facts.hidden_write_flag;
  const FunctionSchema& schema = call.op.aten->schema();
  const bool hidden_on = flag && (!*flag || may_be_on(call.args.at(argument(schema, flag))));
  for (int i : facts.written) {
    const auto* alias = schema.arguments()[i].alias_info();
    const bool declared = alias && alias->isWrite();
    if ((declared || hidden_on) && holds_tensor(call.args.at(i))) written.push_back(i);
  }
  return written;
}

bool draws(const Call& call) {
  for (const Call& inner : call.body)
    if (draws(inner)) return true;
  if (!call.op.aten) return false;
  const OpFacts& facts = facts_of(*call.op.aten);
  if (!facts.random) return false;
  for (int i : facts.draws_when)
    if (!may_be_on(call.args.at(i))) return false;
  return true;
}

bool gives_view(const Call& call) {
  if (!call.op.aten || !facts_of(*call.op.aten).is_view || draws(call)) return false;
  return std::ranges::all_of(call.body, gives_view);
}

namespace {

bool has_other_effect(const Call& call) {
  if (!written_args(call).empty()) return true;
  if (call.op.aten && facts_of(*call.op.aten).is_assert) return true;
  return body_asserts(call) || body_writes_outside(call);
}

}  // namespace

bool only_draws(const Call& call) { return draws(call) && !has_other_effect(call); }

bool has_effect(const Call& call) { return draws(call) || has_other_effect(call); }

c10::OperatorHandle find_op(const char* name, const char* overload) {
  auto op = c10::Dispatcher::singleton().findSchema({name, overload});
  require(op.has_value(), "no operator {}.{}", name, overload);
  return *op;
}

}  // namespace fulgurite
