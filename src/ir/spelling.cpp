#include "ir/spelling.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/names.h"

namespace fulgurite {
namespace {

struct Row {
  std::string_view op;  // without the namespace, which is aten
  std::string_view path;
  std::string_view kinds;  // per argument, with ~ where it is optional; - for none
};

constexpr Row kRows[] = {
#include "ir/spelling_table.inc"
};

static_assert(std::ranges::is_sorted(kRows, {}, &Row::op));

const Row* find_row(const std::string& op) {
  constexpr std::string_view space = "aten::";
  if (!op.starts_with(space)) return nullptr;
  const std::string_view name = std::string_view(op).substr(space.size());
  const auto row = std::ranges::lower_bound(kRows, name, {}, &Row::op);
  return row != std::end(kRows) && row->op == name ? row : nullptr;
}

std::vector<OpSpelling::Argument> parse_arguments(std::string_view words) {
  std::vector<OpSpelling::Argument> result;
  while (!words.empty()) {
    std::string_view word = words.substr(0, words.find(' '));
    words.remove_prefix(std::min(words.size(), word.size() + 1));
    OpSpelling::Argument argument;
    argument.optional = word.ends_with('~');
    if (argument.optional) word.remove_suffix(1);
    argument.kinds = word;
    result.push_back(argument);
  }
  return result;
}

// `.name`, or getattr() where Python's grammar has no place for the name.
std::string attribute(std::string object, std::string_view name) {
  if (is_identifier(name) && !is_keyword(name)) return fmt::format("{}.{}", object, name);
  return fmt::format("getattr({}, \"{}\")", object, name);
}

std::string ops_path(const c10::OperatorName& name) {
  const std::string_view full = name.name;
  const size_t colon = full.find("::");
  std::string path = attribute("torch.ops", full.substr(0, colon));
  path = attribute(std::move(path), full.substr(colon + 2));
  return attribute(std::move(path), name.overload_name.empty() ? "default" : name.overload_name);
}

}  // namespace

bool OpSpelling::accepts(size_t i, ArgKind kind) const {
  if (i >= arguments.size()) return false;
  const std::string_view kinds = arguments[i].kinds;
  auto has = [&](ArgKind k) { return kinds.find(static_cast<char>(k)) != std::string_view::npos; };
  if (kind == ArgKind::Retyped) return has(ArgKind::Contiguous) && has(ArgKind::Strided);
  return has(kind);
}

OpSpelling spelling_of(const c10::OperatorHandle& op) {
  OpSpelling spelling;
  spelling.ops = ops_path(op.operator_name());
  const Row* row = find_row(Op(op).name());
  if (!row) return spelling;
  auto arguments = parse_arguments(row->kinds);
  // Another build of torch may have another schema under this name.
  if (arguments.size() != op.schema().arguments().size()) return spelling;
  spelling.path = row->path;
  spelling.arguments = std::move(arguments);
  return spelling;
}

}  // namespace fulgurite
