#include "codegen/loops/loop_program.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fulgurite {
namespace {

constexpr std::array kPrims{
    "constant", "load",   "count",   "index", "given", "reduced", "running sum", "running product",
    "+",        "-",      "*",       "fma",   "/",     "%",       "-",           "~",
    "&",        "|",      "^",       "<<",    ">>",    "<",       "<=",          "==",
    "!=",       "select", "convert", "bits",  "round", "call"};
static_assert(kPrims.size() == static_cast<size_t>(Prim::Call) + 1);

constexpr std::array kReductions{
    "the sum",     "the product",         "the maximum",         "the minimum",
    "the maximum", "whether any is true", "whether all are true"};

std::string name_of(c10::ScalarType dtype) { return std::string(c10::getDtypeNames(dtype).first); }

std::string statement_text(const LoopProgram& program, const ScalarNode& node) {
  const std::string_view prim = kPrims.at(static_cast<size_t>(node.prim));
  std::string head(prim);
  switch (node.prim) {
    case Prim::Constant:
      return c10::isFloatingType(node.dtype) ? fmt::format("{}", double_of(node))
                                             : fmt::format("{}", int_of(node));
    case Prim::Load:
      head = fmt::format("load x{}", node.at);
      if (node.args[0] >= 0) head += fmt::format(" + t{}", node.args[0]);
      return node.args[1] < 0 ? head : head + fmt::format(" where t{}", node.args[1]);
    case Prim::Count:
      return node.at ? "count of the sample" : "count";
    case Prim::Index:
      return fmt::format("index of loop {}", node.at);
    case Prim::Given:
      return fmt::format("given {}", program.statements.given.at(node.at));
    case Prim::Reduced:
      return fmt::format("r{}", node.at);
    case Prim::Round:
      head += " to " + name_of(static_cast<c10::ScalarType>(node.at));
      break;
    case Prim::Call:
      head = fulgurite::name_of(static_cast<Function>(node.at));
      break;
    default:
      break;
  }
  const bool is_sign = head.size() <= 2 && node.args[1] >= 0;
  if (is_sign) return fmt::format("t{} {} t{}", node.args[0], head, node.args[1]);
  for (int32_t a : node.args)
    if (a >= 0) head += fmt::format(" t{}", a);
  return head;
}

std::string access_text(const LoopProgram& program, const Access& access) {
  const bool is_input = access.buffer < program.inputs;
  return fmt::format("{} of {} {}, strides ({}), offset {}", name_of(access.dtype),
                     is_input ? "input" : "output",
                     is_input ? access.buffer : access.buffer - program.inputs,
                     fmt::join(access.strides, ", "), access.offset);
}

int64_t elements_of(const LoopProgram& program, const Access& access) {
  int64_t count = 1;
  for (int32_t d = 0; d < program.rank(); ++d)
    if (access.strides[d] != 0 || access.by_lane) count *= program.sizes[d];
  return count * static_cast<int64_t>(c10::elementSize(access.dtype));
}

}  // namespace

int64_t LoopProgram::places() const {
  int64_t count = 1;
  for (int32_t d = 0; d < rank() - reduced; ++d) count *= sizes[d];
  return count;
}

int64_t LoopProgram::drawn_words() const {
  int64_t total = 0;
  for (const DrawnWords& words : drawn) total += words.elements * words.each;
  return total;
}

int64_t LoopProgram::bytes() const {
  int64_t total = 0;
  // Parts of a buffer, each with a condition of its own, are about as much as the largest.
  std::map<int32_t, int64_t> plain, parts;
  for (const Access& load : loads) {
    if (load.buffer >= first_drawn()) continue;
    const int64_t bytes = elements_of(*this, load);
    if (load.by_lane)
      parts[load.buffer] = std::max(parts[load.buffer], bytes);
    else
      plain[load.buffer] += bytes;
  }
  for (const auto& [buffer, bytes] : parts) plain[buffer] = std::max(plain[buffer], bytes);
  for (const auto& [buffer, bytes] : plain) total += bytes;
  for (const Store& store : stores) total += elements_of(*this, store.access);
  return total;
}

std::string to_text(const LoopProgram& program) {
  std::string out = fmt::format("# {}\nloop over [{}]", fmt::join(program.operators, ", "),
                                fmt::join(program.sizes, ", "));
  if (program.reduced)
    out += fmt::format(", the innermost {} reduced{}", program.reduced,
                       program.columns ? ", columns side by side" : "");
  out += "\n";
  for (size_t i = 0; i < program.drawn.size(); ++i)
    out += fmt::format("  input {}: drawn, {} of {} words each\n", program.first_drawn() + i,
                       program.drawn[i].elements, program.drawn[i].each);
  for (size_t i = 0; i < program.loads.size(); ++i)
    out += fmt::format("  x{}: {}\n", i, access_text(program, program.loads[i]));
  for (int32_t i = 0; i < program.statements.size(); ++i)
    out += fmt::format("  t{}: {} = {}\n", i, name_of(program.statements[i].dtype),
                       statement_text(program, program.statements[i]));
  for (size_t i = 0; i < program.reductions.size(); ++i) {
    const Reduction& r = program.reductions[i];
    out +=
        fmt::format("  r{}: {} of t{}{}, pass {}\n", i, kReductions.at(static_cast<size_t>(r.kind)),
                    r.statement, r.sampled ? " at a few places of a row" : "", r.pass);
  }
  for (int32_t i : program.statements.checks) out += fmt::format("  fails unless t{}\n", i);
  for (const Store& store : program.stores)
    out += fmt::format("  {} t{} in {}\n", store.per_row ? "store per row" : "store",
                       store.statement, access_text(program, store.access));
  return out;
}

}  // namespace fulgurite
