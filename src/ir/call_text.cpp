#include "ir/call_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/literal.h"

namespace fulgurite {
namespace {

void collect_retyped(const std::vector<Call>& calls, std::unordered_set<ValueId>& out) {
  for (const Call& call : calls) {
    for (const Retyped& retyped : call.retyped) out.insert(retyped.id);
    collect_retyped(call.body, out);
  }
}

bool has_default(const Arg& arg, const c10::Argument& schema) {
  return schema.default_value() && arg.kind == Arg::Kind::Constant &&
         same_constant(*schema.default_value(), arg.constant);
}

// How many leading arguments have to be written: those that follow have their defaults.
// `optional(i)` says whether argument `i` may be left out then.
template <class F>
size_t written_arguments(const Call& call, F&& optional) {
  const auto& schema = call.op.aten->schema().arguments();
  size_t n = 0;
  while (n < schema.size() && !schema[n].kwarg_only()) ++n;
  while (n > 0 && optional(n - 1) && has_default(call.args[n - 1], schema[n - 1])) --n;
  return n;
}

ArgKind constant_kind(const c10::IValue& value, const c10::Type& type) {
  if (value.isNone() || value.isGenerator()) return ArgKind::None;
  if (value.isTensor()) return ArgKind::Number;
  if (value.isList()) return value.toListRef().empty() ? ArgKind::Empty : ArgKind::Other;
  const auto* optional = type.castRaw<c10::OptionalType>();
  const auto kind = optional ? optional->getElementType()->kind() : type.kind();
  if (kind != c10::TypeKind::NumberType) return ArgKind::Other;
  if (value.isBool()) return ArgKind::Bool;
  if (value.isInt()) return ArgKind::Int;
  return value.isDouble() ? ArgKind::Float : ArgKind::Complex;
}

// Writes separators between items.
class Separated {
 public:
  explicit Separated(std::string& out) : out_(out) {}
  std::string& next() {
    if (!std::exchange(first_, false)) out_ += ", ";
    return out_;
  }

 private:
  std::string& out_;
  bool first_ = true;
};

void append_list(std::string& out, c10::ArrayRef<ValueId> ids, std::string_view none,
                 const Names& names) {
  out += '[';
  Separated list(out);
  for (ValueId id : ids) {
    std::string& text = list.next();
    if (id == kNoValue) {
      text += none;
    } else {
      names.append(text, id);
    }
  }
  out += ']';
}

}  // namespace

std::vector<ValueId> tensor_arguments(const Call& call) {
  std::vector<ValueId> ids;
  for_each_value(call.args, [&](ValueId id) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  });
  return ids;
}

void append_results(std::string& out, const Call& call, const Names& names) {
  const std::vector<ValueId> given = tensor_arguments(call);
  bool makes_something = false;
  for_each_value(call.results, [&](ValueId id) {
    makes_something |= std::find(given.begin(), given.end(), id) == given.end();
  });
  if (!makes_something) return;
  Separated list(out);
  for (const Arg& result : call.results) {
    std::string& text = list.next();
    switch (result.kind) {
      case Arg::Kind::Constant:
        text += '_';
        break;
      case Arg::Kind::Value:
        names.append(text, result.values[0]);
        break;
      case Arg::Kind::ValueList:
        append_list(text, result.values, "_", names);
        break;
    }
  }
  out += " = ";
}

CallText::CallText(const Trace& trace, bool explicit_calls)
    : trace_(trace), explicit_calls_(explicit_calls), names_(trace) {
  collect_retyped(trace.calls, retyped_);
}

std::string CallText::append(std::string& out, const Call& call) {
  append_results(out, call, names_);
  if (call.op.aten) return append_aten(out, call);
  append_region(out, call);
  return "";
}

const OpSpelling& CallText::spelling(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  const std::pair<std::string_view, std::string_view> key(name.name, name.overload_name);
  auto found = spellings_.find(key);
  if (found == spellings_.end()) found = spellings_.emplace(key, spelling_of(op)).first;
  return found->second;
}

ArgKind CallText::kind_of(const Arg& arg, const c10::Argument& schema) const {
  switch (arg.kind) {
    case Arg::Kind::Constant:
      return constant_kind(arg.constant, *schema.real_type());
    case Arg::Kind::ValueList:
      return arg.values.empty() ? ArgKind::Empty : ArgKind::Other;
    case Arg::Kind::Value:
      break;
  }
  const auto id = static_cast<size_t>(arg.values[0]);
  if (id >= trace_.values.size() || retyped_.contains(arg.values[0])) return ArgKind::Retyped;
  return is_contiguous(trace_.values[id].type) ? ArgKind::Contiguous : ArgKind::Strided;
}

bool CallText::is_pretty(const Call& call, const OpSpelling& spelling, size_t positional) const {
  const auto& schema = call.op.aten->schema().arguments();
  for (size_t i = 0; i < schema.size(); ++i) {
    if (!schema[i].kwarg_only() && i >= positional) continue;
    if (schema[i].kwarg_only() && spelling.arguments[i].optional &&
        has_default(call.args[i], schema[i]))
      continue;
    if (!spelling.accepts(i, kind_of(call.args[i], schema[i]))) return false;
  }
  return true;
}

std::string CallText::append_arg(std::string& out, const Arg& arg,
                                 const c10::Argument& schema) const {
  switch (arg.kind) {
    case Arg::Kind::Value:
      names_.append(out, arg.values[0]);
      return "";
    case Arg::Kind::ValueList:
      append_list(out, arg.values, "None", names_);
      return "";
    case Arg::Kind::Constant:
      break;
  }
  std::string odd = append_literal(out, arg.constant, *schema.real_type());
  return odd.empty() ? odd : fmt::format("{}: {}", schema.name(), odd);
}

std::string CallText::append_aten(std::string& out, const Call& call) {
  const auto& schema = call.op.aten->schema().arguments();
  const OpSpelling& spelled = spelling(*call.op.aten);
  if (call.args.size() != schema.size()) {
    fmt::format_to(std::back_inserter(out), "{}(<{} arguments>)", spelled.ops, call.args.size());
    return "";
  }
  bool pretty = !explicit_calls_ && !spelled.path.empty();
  size_t positional = 0;
  if (pretty) {
    positional = written_arguments(call, [&](size_t i) { return spelled.arguments[i].optional; });
    pretty = is_pretty(call, spelled, positional);
  }
  if (!pretty) positional = written_arguments(call, [&](size_t) { return !explicit_calls_; });

  const bool method = pretty && spelled.path.front() == '.';
  std::string note;
  auto append_noted = [&](std::string& text, size_t i) {
    std::string found = append_arg(text, call.args[i], schema[i]);
    if (note.empty()) note = std::move(found);
  };
  if (method) append_noted(out, 0);
  out += pretty ? spelled.path : std::string_view(spelled.ops);
  out += '(';
  Separated list(out);
  for (size_t i = method; i < positional; ++i) append_noted(list.next(), i);
  for (size_t i = 0; i < schema.size(); ++i) {
    if (!schema[i].kwarg_only()) continue;
    const bool optional = pretty ? spelled.arguments[i].optional : !explicit_calls_;
    if (optional && has_default(call.args[i], schema[i])) continue;
    const std::string& name = schema[i].name();
    const bool keyword = is_keyword(name);
    list.next() += keyword ? fmt::format("**{{\"{}\": ", name) : name + "=";
    append_noted(out, i);
    if (keyword) out += '}';
  }
  out += ')';
  return note;
}

void CallText::append_region(std::string& out, const Call& call) const {
  out.append(names_.region(call)).append("(");
  Separated list(out);
  for (ValueId id : tensor_arguments(call)) names_.append(list.next(), id);
  out += ')';
}

}  // namespace fulgurite
