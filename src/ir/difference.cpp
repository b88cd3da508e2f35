#include <fmt/format.h>

#include "ir/call_text.h"
#include "ir/literal.h"
#include "ir/print.h"
#include "ir/retyping.h"
#include "ir/tree_text.h"
#include "ir/verify.h"

namespace fulgurite {
namespace {

void open_regions(const std::vector<Call>& calls, std::vector<const Call*>& out) {
  for (const Call& call : calls) {
    if (call.op.aten || call.gradient) {
      out.push_back(&call);
    } else {
      open_regions(call.body, out);
    }
  }
}

// Numbers of one trace and the other that stand for the same thing.
class Pairing {
 public:
  // False if either is paired with another.
  bool pair(int32_t a, int32_t b) {
    int32_t& there = at(forth_, a);
    int32_t& back = at(back_, b);
    if (there == kNone && back == kNone) {
      there = b;
      back = a;
    }
    return there == b && back == a;
  }
  bool paired(int32_t a, int32_t b) { return at(forth_, a) == b; }

 private:
  static constexpr int32_t kNone = -2;
  static int32_t& at(std::vector<int32_t>& map, int32_t i) {
    const auto index = static_cast<size_t>(i + 1);  // -1 stands for nothing, and pairs with itself
    if (index >= map.size()) map.resize(index + index / 2 + 16, kNone);
    return map[index];
  }

  std::vector<int32_t> forth_, back_;
};

class Comparison {
 public:
  Comparison(const Trace& a, const Trace& b) : a_(a), b_(b) {}

  std::string run() {
    if (a_.mode != b_.mode) return "the grad mode";
    if (a_.inputs.size() != b_.inputs.size())
      return fmt::format("{} inputs and {}", a_.inputs.size(), b_.inputs.size());
    for (size_t i = 0; i < a_.inputs.size(); ++i)
      if (std::string found = input(a_.inputs[i].id, b_.inputs[i].id); !found.empty())
        return fmt::format("input {}: {}", i, found);
    if (std::string found = lists(a_.calls, b_.calls); !found.empty()) return found;
    return outputs();
  }

 private:
  std::string lists(const std::vector<Call>& a, const std::vector<Call>& b) {
    std::vector<const Call*> left, right;
    open_regions(a, left);
    open_regions(b, right);
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i)
      if (std::string found = calls(*left[i], *right[i]); !found.empty())
        return fmt::format("call {}: {}\n  {}\n  {}", i, found, print_call(a_, *left[i]),
                           print_call(b_, *right[i]));
    if (left.size() == right.size()) return "";
    const bool more = left.size() > right.size();
    const size_t i = std::min(left.size(), right.size());
    return fmt::format("{} calls and {}; the first that is alone:\n  {}", left.size(), right.size(),
                       more ? print_call(a_, *left[i]) : print_call(b_, *right[i]));
  }

  std::string calls(const Call& a, const Call& b) {
    const bool custom = a.gradient && b.gradient;  // the name is of no importance
    if (!custom && !(a.op == b.op)) return fmt::format("{} and {}", a.op.name(), b.op.name());
    if (a.mode != b.mode) return "the grad mode";
    if (a.args.size() != b.args.size() || a.results.size() != b.results.size())
      return "the number of arguments or results";
    for (size_t i = 0; i < a.args.size(); ++i)
      if (!arguments(a.args[i], b.args[i]))
        return "argument " +
               (custom ? std::to_string(i) : a.op.aten->schema().arguments().at(i).name());
    if (custom)
      if (std::string found = lists(a.body, b.body); !found.empty()) return "forward, " + found;
    for (size_t i = 0; i < a.results.size(); ++i)
      if (std::string found = results(a, b, i); !found.empty())
        return fmt::format("result {}: {}", i, found);
    if (custom)
      if (std::string found = gradients(*a.gradient, *b.gradient); !found.empty()) return found;
    return retyped(a, b);
  }

  bool same_values(const std::vector<ValueId>& a, const std::vector<ValueId>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](ValueId x, ValueId y) {
      return x == kNoValue ? y == kNoValue : values_.paired(x, y);
    });
  }

  std::string gradients(const CustomGradient& a, const CustomGradient& b) {
    if (a.differentiable != b.differentiable) return "the number of differentiable arguments";
    if (!same_values(a.saved, b.saved)) return "what it saves for its backward";
    if (!same_values(a.kept, b.kept)) return "what it keeps for its backward";
    if (!same_values(a.dirty, b.dirty)) return "which arguments it marks dirty";
    if (!same_values(a.non_differentiable, b.non_differentiable))
      return "which results it marks as not differentiable";
    if (a.zeros_for_none != b.zeros_for_none || a.cases.size() != b.cases.size())
      return "how it takes gradients that are None";
    for (size_t i = 0; i < a.cases.size(); ++i)
      if (std::string found = cases(a.cases[i], b.cases[i]); !found.empty())
        return "backward, " + found;
    return "";
  }

  std::string cases(const CustomGradient::Case& a, const CustomGradient::Case& b) {
    if (a.given != b.given || a.gradients.size() != b.gradients.size()) return "which are given";
    for (size_t i = 0; i < a.gradients.size(); ++i)
      if (!values_.pair(a.gradients[i], b.gradients[i])) return "which gradients it uses";
    if (std::string found = lists(a.calls, b.calls); !found.empty()) return found;
    return same_values(a.results, b.results) ? "" : "its results";
  }

  bool arguments(const Arg& a, const Arg& b) {
    if (a.kind != b.kind || a.values.size() != b.values.size()) return false;
    if (a.kind == Arg::Kind::Constant) return same_constant(a.constant, b.constant);
    for (size_t i = 0; i < a.values.size(); ++i)
      if (a.values[i] != b.values[i] || a.values[i] != kNoValue)
        if (!values_.paired(a.values[i], b.values[i])) return false;
    return true;
  }

  std::string results(const Call& left, const Call& right, size_t index) {
    const Arg &a = left.results[index], &b = right.results[index];
    if (a.kind != b.kind || a.values.size() != b.values.size()) return "another kind";
    for (size_t i = 0; i < a.values.size(); ++i) {
      const ValueId x = a.values[i], y = b.values[i];
      if (!values_.pair(x, y)) return "which of the values it is";
      if (x == kNoValue) continue;
      const std::string found = types(type_after(a_, left, x), type_after(b_, right, y));
      if (!found.empty()) return found;
    }
    const bool constant = a.kind == Arg::Kind::Constant;
    return constant && !same_constant(a.constant, b.constant) ? "the value" : "";
  }

  // An input or an output.
  std::string ends(ValueId a, ValueId b) {
    if (!values_.pair(a, b)) return "which of the values it is";
    const bool left = type_of(a_, a).requires_grad, right = type_of(b_, b).requires_grad;
    return left == right ? "" : "whether it requires grad";
  }

  std::string input(ValueId a, ValueId b) {
    const std::string found = ends(a, b);
    return found.empty() ? types(type_of(a_, a), type_of(b_, b)) : found;
  }

  std::string retyped(const Call& a, const Call& b) {
    if (a.retyped.size() != b.retyped.size())
      return "the number of values it gives another geometry";
    for (size_t i = 0; i < a.retyped.size(); ++i) {
      if (!values_.paired(a.retyped[i].id, b.retyped[i].id)) return "which value gets a geometry";
      if (std::string found = types(a.retyped[i].type, b.retyped[i].type); !found.empty())
        return found;
    }
    return "";
  }

  std::string types(const TensorType& a, const TensorType& b) {
    if (!storages_.pair(a.storage, b.storage)) return "which values share its memory";
    if (a.offset != b.offset) return fmt::format("offset {} and {}", a.offset, b.offset);
    const bool same = a.dtype == b.dtype && a.device == b.device && a.sizes == b.sizes &&
                      a.strides == b.strides && a.conj == b.conj && a.neg == b.neg;
    return same ? "" : fmt::format("\"{}\" and \"{}\"", print_type(a), print_type(b));
  }

  std::string outputs() {
    if (a_.outputs.size() != b_.outputs.size())
      return fmt::format("{} outputs and {}", a_.outputs.size(), b_.outputs.size());
    for (size_t i = 0; i < a_.outputs.size(); ++i)
      if (std::string found = ends(a_.outputs[i], b_.outputs[i]); !found.empty())
        return fmt::format("output {}: {}", i, found);
    const std::string left = tree_outline(a_.output_tree), right = tree_outline(b_.output_tree);
    return left == right ? "" : fmt::format("the outputs' structure: {} and {}", left, right);
  }

  const Trace& a_;
  const Trace& b_;
  Pairing values_, storages_;
};

}  // namespace

std::string difference(const Trace& a, const Trace& b) { return Comparison(a, b).run(); }

}  // namespace fulgurite
