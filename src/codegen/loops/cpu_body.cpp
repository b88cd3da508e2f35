#include "codegen/loops/cpu_body.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/loops/cpu_types.h"

namespace fulgurite {
namespace {

using c10::ScalarType;

// "1.5", "1e-05", "0x1p-149" where nothing shorter gives the same number.
std::string float_text(double value, bool is_double) {
  if (std::isnan(value)) return "NAN";
  if (std::isinf(value)) return value < 0 ? "-INF" : "INF";
  std::string text =
      is_double ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  if (text.find_first_of(".e") == std::string::npos) text += ".";
  return is_double ? text : text + "f";
}

// Lane by lane by the C library, where there is no form in vectors.
std::string by_lanes(Function f, ScalarType dtype) {
  const std::string_view v = vector_name(dtype);
  const std::string_view suffix = dtype == ScalarType::Float ? "f" : "";
  const bool two = arity_of(f) == 2;
  return fmt::format(R"(
// Lane by lane, by the C library.
INL {0}v {0}_{1}({0}v x{2}) {{
  for (int j = 0; j < L; j++) x[j] = __builtin_{1}{3}(x[j]{4});
  return x;
}}
)",
                     v, name_of(f), two ? fmt::format(", {}v y", v) : "", suffix,
                     two ? ", y[j]" : "");
}

// Pieces need f64_exp and the like, which are no pieces: those are added first.
void use_function(Prelude& prelude, Function f, ScalarType dtype) {
  const std::string name = fmt::format("{}_{}", vector_name(dtype), name_of(f));
  if (dtype == ScalarType::Double) {
    if (f == Function::sigmoid || f == Function::silu || f == Function::exp_negative)
      use_function(prelude, Function::exp, dtype);
    if (f == Function::gelu_tanh) use_function(prelude, Function::tanh, dtype);
  }
  if (!prelude.use(name)) prelude.append(name, by_lanes(f, dtype));
}

}  // namespace

CpuBody::CpuBody(const LoopProgram& program, Prelude& prelude)
    : program_(program), prelude_(prelude) {
  const int32_t kept = program.rank() - std::max(1, program.reduced);
  const auto varies = [&](const Access& access) {
    return std::any_of(access.strides.begin() + kept, access.strides.end(),
                       [](int64_t stride) { return stride != 0; });
  };
  const int32_t lane = program.lane_dimension();
  for (const ScalarNode& node : program.statements.nodes()) {
    bool inner = false, differs = node.prim == Prim::Reduced && program.columns;
    int32_t after = -1;
    for (int32_t arg : node.args) {
      if (arg < 0) continue;
      inner |= inner_[arg];
      differs |= differs_[arg];
      after = std::max(after, after_[arg]);
    }
    if (node.prim == Prim::Index) {
      inner = node.at >= kept;
      differs = node.at == lane;
      if (!inner && !differs) outer_indices_.push_back(node.at);
    }
    if (node.prim == Prim::Load) {
      inner |= varies(program.loads[node.at]);
      differs |= program.loads[node.at].strides[lane] != 0;
    }
    if (is_running(node.prim)) inner = differs = true;
    if (node.prim == Prim::Reduced) after = program.reductions[node.at].pass;
    costly_ |= node.takes_long() && inner;
    inner_.push_back(inner);
    differs_.push_back(differs);
    after_.push_back(after);
    narrow_nan_.push_back(has_narrow_nan(node));
  }
  std::ranges::sort(outer_indices_);
}

bool CpuBody::has_narrow_nan(const ScalarNode& node) const {
  if (node.prim == Prim::Bits) return false;
  if (node.prim == Prim::Load) {
    const c10::ScalarType dtype = program_.loads[node.at].dtype;
    return dtype == c10::ScalarType::BFloat16 || !c10::isFloatingType(dtype);
  }
  if (node.prim == Prim::Round && static_cast<ScalarType>(node.at) == ScalarType::BFloat16)
    return true;
  if (node.prim == Prim::Reduced) return narrow_nan_[program_.reductions[node.at].statement];
  return std::ranges::all_of(node.args, [&](int32_t arg) { return arg < 0 || narrow_nan_[arg]; });
}

bool CpuBody::counts_lanes() const {
  return !program_.statements.checks.empty() ||
         std::ranges::any_of(program_.loads, [](const Access& load) { return load.by_lane; });
}

std::string CpuBody::parameters() const {
  std::string out;
  for (int32_t d : outer_indices_) out += fmt::format("long i{}, ", d);
  if (!program_.statements.given.empty()) out += "const long* given, ";
  return out + (program_.statements.checks.empty() ? "" : "long* failed, ");
}

std::string CpuBody::arguments() const {
  std::string out;
  for (int32_t d : outer_indices_) out += fmt::format("i{}, ", d);
  if (!program_.statements.given.empty()) out += "given, ";
  return out + (program_.statements.checks.empty() ? "" : "failed, ");
}

std::string CpuBody::row_statements(int32_t pass, const Context& context) {
  std::string out;
  for (int32_t i = 0; i < program_.statements.size(); ++i)
    if (!inner_[i] && after_[i] == pass) out += "  " + line(i, context) + check(i, context);
  return out;
}

// Statements of a row that those of a place, or roots, use.
std::vector<bool> CpuBody::used_of_row(const std::vector<int32_t>& roots) const {
  const std::vector<bool> all = needed(roots, {});
  std::vector<bool> used(program_.statements.size(), false);
  for (int32_t root : roots) used[root] = !inner_[root];
  for (int32_t i = 0; i < program_.statements.size(); ++i)
    for (int32_t arg : program_.statements[i].args)
      if (all[i] && inner_[i] && arg >= 0 && !inner_[arg]) used[arg] = true;
  return used;
}

std::string CpuBody::constants(const std::vector<int32_t>& roots) {
  const std::vector<bool> used = used_of_row(roots);
  std::string out;
  for (int32_t i = 0; i < program_.statements.size(); ++i)
    if (used[i] && program_.statements[i].prim == Prim::Constant) out += "  " + line(i, {});
  return out;
}

std::string CpuBody::sample_count() {
  std::string out;
  for (int32_t i = 0; i < program_.statements.size(); ++i) {
    const ScalarNode& node = program_.statements[i];
    if (node.prim != Prim::Convert || node.dtype != c10::ScalarType::Float) continue;
    const ScalarNode& count = program_.statements[node.args[0]];
    if (count.prim == Prim::Count && count.at == 1)
      out += fmt::format("  const f32v t{} = f32({}.f);\n", i, kSampled);
  }
  return out;
}

std::vector<int32_t> CpuBody::row_values(const std::vector<int32_t>& roots) const {
  const std::vector<bool> used = used_of_row(roots);
  std::vector<int32_t> out;
  for (int32_t i = 0; i < program_.statements.size(); ++i)
    if (used[i] && program_.statements[i].prim != Prim::Constant) out.push_back(i);
  return out;
}

std::vector<bool> CpuBody::needed(const std::vector<int32_t>& roots,
                                  const std::map<int32_t, std::string>& given) const {
  std::vector<bool> needed(program_.statements.size(), false);
  for (int32_t root : roots) needed[root] = true;
  for (int32_t i = program_.statements.size() - 1; i >= 0; --i)
    for (int32_t arg : program_.statements[i].args)
      if (needed[i] && arg >= 0 && !given.contains(i)) needed[arg] = true;
  return needed;
}

bool CpuBody::is_costly(int32_t statement) const {
  return program_.statements[statement].takes_long();
}

bool CpuBody::need_only(const std::vector<int32_t>& roots, int32_t given) const {
  const std::vector<bool> all = needed(roots, {{given, ""}});
  for (int32_t i = 0; i < program_.statements.size(); ++i) {
    const Prim prim = program_.statements[i].prim;
    if (all[i] && inner_[i] && (prim == Prim::Load || prim == Prim::Index)) return false;
  }
  return all[given];
}

std::string CpuBody::inner_statements(const std::vector<int32_t>& roots, const Context& context) {
  const std::vector<bool> all = needed(roots, context.given);
  std::string out;
  for (int32_t i = 0; i < program_.statements.size(); ++i)
    if (all[i] && inner_[i]) out += "    " + line(i, context) + check(i, context);
  return out;
}

std::string CpuBody::line(int32_t i, const Context& context) {
  const ScalarNode& node = program_.statements[i];
  use_type(prelude_, node.dtype);
  const auto given = context.given.find(i);
  if (is_running(node.prim))
    return fmt::format("const {} t{} = {};\n", vector_type(node.dtype), i, running(i));
  return fmt::format("const {} t{} = {};\n", vector_type(node.dtype), i,
                     given == context.given.end() ? value(node, context) : given->second);
}

std::string CpuBody::in_memory_type(int32_t statement, ScalarType dtype) {
  use_type(prelude_, dtype);
  const ScalarType from = program_.statements[statement].dtype;
  if (from == computed_in(dtype)) return fmt::format("t{}", statement);
  return fmt::format("{}(t{})", use_conversion(prelude_, from, computed_in(dtype)), statement);
}

std::string CpuBody::arg(const ScalarNode& node, int i) const {
  return fmt::format("t{}", node.args.at(i));
}

std::string CpuBody::value(const ScalarNode& node, const Context& context) {
  switch (node.prim) {
    case Prim::Constant:
      return literal(node);
    case Prim::Load:
      return load(node, context);
    case Prim::Index:
      return index(node, context);
    case Prim::Count:
      return node.at ? "i64(sample)" : "i64(count)";
    case Prim::Given:
      return fmt::format("i64(given[{}])", node.at);
    case Prim::Reduced:
      return fmt::format("r{}", node.at);
    case Prim::Neg:
      return "-" + arg(node, 0);
    case Prim::Not:
      return "~" + arg(node, 0);
    case Prim::Fma:
      return fmt::format("FMA({}, {}, {})", arg(node, 0), arg(node, 1), arg(node, 2));
    case Prim::Select:
      return fmt::format("{}({}, {}, {})", use_select(prelude_, node.dtype), arg(node, 0),
                         arg(node, 1), arg(node, 2));
    case Prim::Convert: {
      const ScalarType from = program_.statements[node.args[0]].dtype;
      return fmt::format("{}({})", use_conversion(prelude_, from, node.dtype), arg(node, 0));
    }
    case Prim::Bits:
      return fmt::format("BITS({}, {})", vector_type(node.dtype), arg(node, 0));
    case Prim::Round: {
      const auto narrow = static_cast<ScalarType>(node.at);
      use_type(prelude_, narrow);
      const bool plain = narrow == ScalarType::BFloat16 && narrow_nan_[node.args[0]];
      const std::string name =
          fmt::format("{}_round{}", vector_name(narrow), plain ? "_of_narrow" : "");
      prelude_.use(name);
      return fmt::format("{}({})", name, arg(node, 0));
    }
    case Prim::Call:
      return function(node);
    case Prim::Less:
    case Prim::LessEqual:
    case Prim::Equal:
    case Prim::NotEqual:
      return comparison(node, context);
    default:
      return infix(node);
  }
}

std::string CpuBody::load(const ScalarNode& node, const Context& context) {
  const Access& access = program_.loads[node.at];
  use_type(prelude_, access.dtype);
  const int64_t stride = access.strides[program_.lane_dimension()];
  const bool strided = stride != 0 && stride != 1;
  const std::string step = strided ? fmt::format("s{}", node.at) : fmt::format("{}", stride);
  std::string place = fmt::format("{}{}", context.pointer, node.at);
  if (stride != 0 && !context.index.empty())
    place += fmt::format(" + {}{}", context.index, strided ? " * " + step : "");
  if (access.by_lane) return load_by_lane(node, context, place, step);
  if (stride == 0) return fmt::format("splat({})", place);
  if (context.partial) {
    prelude_.use("load_part");
    return fmt::format("load_part({}, {}, k)", place, step);
  }
  if (stride == 1) return fmt::format("load({})", place);
  prelude_.use("strided_load");
  return fmt::format("load({}, {})", place, step);
}

std::string CpuBody::index(const ScalarNode& node, const Context& context) {
  use_type(prelude_, ScalarType::Long);
  if (node.at != program_.lane_dimension()) return fmt::format("i64(i{})", node.at);
  prelude_.use("lane_numbers");
  const std::string_view plus = context.index.empty() ? "" : " + ";
  return fmt::format("i64(at{}{}) + lane_numbers()", plus, context.index);
}

std::string CpuBody::literal(const ScalarNode& node) {
  const std::string_view v = vector_name(node.dtype);
  if (node.dtype == ScalarType::Bool)
    return fmt::format("truth({})", int_of(node) ? "true" : "false");
  if (c10::isFloatingType(node.dtype))
    return fmt::format("{}({})", v, float_text(double_of(node), node.dtype == ScalarType::Double));
  const int64_t number = int_of(node);
  if (number == std::numeric_limits<int64_t>::min()) return "i64(-9223372036854775807l - 1)";
  return fmt::format("{}({}{})", v, number, node.dtype == ScalarType::Long ? "l" : "");
}

std::string CpuBody::infix(const ScalarNode& node) {
  std::string_view sign;
  switch (node.prim) {
    case Prim::Add:
      sign = "+";
      break;
    case Prim::Sub:
      sign = "-";
      break;
    case Prim::Mul:
      sign = "*";
      break;
    case Prim::Div:
      sign = "/";
      break;
    case Prim::Rem:
      sign = "%";
      break;
    case Prim::And:
      sign = "&";
      break;
    case Prim::Or:
      sign = "|";
      break;
    case Prim::Xor:
      sign = "^";
      break;
    case Prim::ShiftLeft:
      sign = "<<";
      break;
    case Prim::ShiftRight:
      sign = ">>";
      break;
    default:
      internal_error("a statement of no form");
  }
  return fmt::format("{} {} {}", arg(node, 0), sign, arg(node, 1));
}

// Of the index of lanes with a number that is the same for all; "" for any other.
std::string CpuBody::of_lane_numbers(const ScalarNode& node, const Context& context) {
  const bool equal = node.prim == Prim::Equal || node.prim == Prim::NotEqual;
  const auto is_index = [&](int32_t statement) {
    const ScalarNode& of = program_.statements[statement];
    return of.prim == Prim::Index && of.at == program_.lane_dimension();
  };
  const bool left = is_index(node.args[0]);
  const int32_t bound = node.args[left ? 1 : 0];
  if (program_.columns || left == is_index(node.args[1]) || differs_[bound]) return "";
  const bool below = left == (node.prim == Prim::Less);
  const std::string_view name = equal ? "lanes_at" : below ? "lanes_below" : "lanes_beyond";
  const bool opposite = node.prim == Prim::LessEqual || node.prim == Prim::NotEqual;
  prelude_.use(name);
  return fmt::format("{}{}(t{}[0], at{}{})", opposite ? "~" : "", name, bound,
                     context.index.empty() ? "" : " + ", context.index);
}

std::string CpuBody::comparison(const ScalarNode& node, const Context& context) {
  if (std::string lanes = of_lane_numbers(node, context); !lanes.empty()) return lanes;
  const std::string x = arg(node, 0), y = arg(node, 1);
  if (program_.statements[node.args[0]].dtype == ScalarType::Bool) {
    if (node.prim == Prim::Less) return fmt::format("~{} & {}", x, y);
    if (node.prim == Prim::LessEqual) return fmt::format("~{} | {}", x, y);
    return fmt::format("{}({} ^ {})", node.prim == Prim::Equal ? "~" : "", x, y);
  }
  const std::string_view sign = node.prim == Prim::Less        ? "<"
                                : node.prim == Prim::LessEqual ? "<="
                                : node.prim == Prim::Equal     ? "=="
                                                               : "!=";
  return fmt::format("__builtin_convertvector({} {} {}, mask)", x, sign, y);
}

std::string CpuBody::function(const ScalarNode& node) {
  const auto f = static_cast<Function>(node.at);
  if (is_rounding(f) || f == Function::sqrt)
    return fmt::format("__builtin_elementwise_{}({})", name_of(f), arg(node, 0));
  const std::string name = fmt::format("{}_{}", vector_name(node.dtype), name_of(f));
  const std::string given = arity_of(f) == 1 ? arg(node, 0) : arg(node, 0) + ", " + arg(node, 1);
  use_function(prelude_, f, node.dtype);
  return fmt::format("{}({})", name, given);
}

}  // namespace fulgurite
