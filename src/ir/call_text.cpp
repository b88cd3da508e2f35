#include "ir/call_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/literal.h"
#include "ir/number_argument.h"

namespace fulgurite {
namespace {

void collect_retyped(const std::vector<Call>& calls, std::unordered_set<ValueId>& out) {
  for (const Call& call : calls) {
    for (const Retyped& retyped : call.retyped) out.insert(retyped.id);
    collect_retyped(call.body, out);
    if (call.gradient)
      for (const CustomGradient::Case& one : call.gradient->cases) collect_retyped(one.calls, out);
  }
}

bool gives_number(const Call& call) {
  return call.op.aten && (is_item(*call.op.aten) || is_arithmetic(*call.op.aten));
}

// The values that are Python's floats in the text.
void collect_numbers(const std::vector<Call>& calls, std::unordered_set<ValueId>& out) {
  for (const Call& call : calls) {
    if (gives_number(call)) out.insert(call.results[0].values[0]);
    collect_numbers(call.body, out);
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
  collect_numbers(trace.calls, numbers_);
}

std::string CallText::append(std::string& out, const Call& call) {
  append_results(out, call, names_);
  if (gives_number(call)) return append_number(out, call), "";
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
  if (numbers_.contains(arg.values[0]))
    return takes_number(schema) ? ArgKind::Float : ArgKind::Number;
  const auto id = static_cast<size_t>(arg.values[0]);
  if (id >= trace_.values.size() || retyped_.contains(arg.values[0])) return ArgKind::Retyped;
  return is_contiguous(trace_.values[id].type) ? ArgKind::Contiguous : ArgKind::Strided;
}

bool CallText::is_certain(const Call& call, const Form& form) const {
  const auto& schema = call.op.aten->schema().arguments();
  for (size_t i = 0; i < schema.size(); ++i)
    if (is_written(call, form, i) && !form.spelling.accepts(i, kind_of(call.args[i], schema[i])))
      return false;
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
  return append_literal(out, arg.constant, *schema.real_type());
}

CallText::Form CallText::form_of(const Call& call) {
  const OpSpelling& spelled = spelling(*call.op.aten);
  if (!explicit_calls_ && !spelled.path.empty()) {
    const size_t positional =
        written_arguments(call, [&](size_t i) { return spelled.arguments[i].optional; });
    const Form pretty{spelled, true, positional};
    if (is_certain(call, pretty)) return pretty;
  }
  return {spelled, false, written_arguments(call, [&](size_t) { return !explicit_calls_; })};
}

bool CallText::is_written(const Call& call, const Form& form, size_t i) const {
  const c10::Argument& schema = call.op.aten->schema().arguments()[i];
  if (!schema.kwarg_only()) return i < form.positional;
  const bool optional = form.pretty ? form.spelling.arguments[i].optional : !explicit_calls_;
  return !optional || !has_default(call.args[i], schema);
}

std::string CallText::append_aten(std::string& out, const Call& call) {
  const auto& schema = call.op.aten->schema().arguments();
  if (call.args.size() != schema.size()) {
    fmt::format_to(std::back_inserter(out), "{}(<{} arguments>)", spelling(*call.op.aten).ops,
                   call.args.size());
    return "";
  }
  const Form form = form_of(call);
  const bool method = form.pretty && form.spelling.path.front() == '.';
  std::string note;
  auto append_noted = [&](size_t i) {
    std::string found = append_arg(out, call.args[i], schema[i]);
    const bool number =
        call.args[i].kind == Arg::Kind::Constant && call.args[i].constant.isTensor();
    if (number && !form.spelling.accepts(i, ArgKind::Number)) found = "Python takes no number here";
    if (note.empty() && !found.empty()) note = fmt::format("{}: {}", schema[i].name(), found);
  };
  if (method) append_noted(0);
  out += form.pretty ? form.spelling.path : std::string_view(form.spelling.ops);
  out += '(';
  Separated list(out);
  for (size_t i = method; i < schema.size(); ++i) {
    if (!is_written(call, form, i)) continue;
    list.next();
    const std::string& name = schema[i].name();
    const bool odd = schema[i].kwarg_only() && is_keyword(name);
    if (odd) {
      fmt::format_to(std::back_inserter(out), "**{{\"{}\": ", name);
    } else if (schema[i].kwarg_only()) {
      out.append(name).append("=");
    }
    append_noted(i);
    if (odd) out += '}';
  }
  out += ')';
  return note;
}

void CallText::append_number(std::string& out, const Call& call) const {
  if (is_item(*call.op.aten)) {
    names_.append(out, call.args[0].values[0]);
    out += ".item()";
    return;
  }
  std::string_view rest = call.args[1].constant.toStringView();
  for (size_t open; (open = rest.find('{')) != std::string_view::npos;) {
    const size_t close = rest.find('}');
    out += rest.substr(0, open);
    const auto index = std::stoul(std::string(rest.substr(open + 1, close - open - 1)));
    names_.append(out, call.args[0].values[index]);
    rest.remove_prefix(close + 1);
  }
  out += rest;
}

void CallText::append_region(std::string& out, const Call& call) const {
  out.append(names_.region(call));
  if (call.gradient) return append_custom_arguments(out, call);
  out += '(';
  Separated list(out);
  for (ValueId id : tensor_arguments(call)) names_.append(list.next(), id);
  out += ')';
}

// What autograd must not see is given in a tuple.
void CallText::append_custom_arguments(std::string& out, const Call& call) const {
  out += ".apply(";
  Separated list(out);
  for (size_t i = 0; i < call.args.size(); ++i) {
    std::string& text = list.next();
    if (i == call.gradient->differentiable) text += '(';
    names_.append(text, call.args[i].values[0]);
  }
  if (call.args.size() > call.gradient->differentiable) out += ",)";
  out += ')';
}

}  // namespace fulgurite
