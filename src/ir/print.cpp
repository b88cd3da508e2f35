#include "ir/print.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/call_text.h"
#include "ir/retyping.h"
#include "ir/surroundings.h"
#include "ir/tree_text.h"

namespace fulgurite {
namespace {

constexpr size_t kInlineTypes = 3;  // results whose types fit on the line of their call

// A comment ends at the end of its line.
std::string one_line(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

// "/home/me/model.py" is shown as model.py.
std::string_view file_name(std::string_view path) {
  return path.substr(path.find_last_of("/\\") + 1);
}

bool is_same_line(const SourceLine& a, const SourceLine& b) {
  return a.line == b.line && a.file == b.file;
}

// Grad mode and source line at a place in the text; what differs from them has to be said.
struct Place {
  GradMode outer;  // of the function
  GradMode mode;   // of the block
  int source = -1;
  int indent() const { return mode == outer ? 1 : 2; }
};

class Program {
 public:
  Program(const Trace& trace, const PrintOptions& options)
      : trace_(trace), options_(options), calls_(trace, options.explicit_calls) {}

  std::string text() && {
    header();
    for (const Call* region : names().regions()) region_function(*region);
    decorators();
    signature();
    body(trace_.calls, trace_.mode, trace_.epilogue);
    fmt::format_to(end(), "  return {}\n", tree_text(trace_, names()));
    return std::move(out_);
  }

 private:
  const Names& names() const { return calls_.names(); }
  std::back_insert_iterator<std::string> end() { return std::back_inserter(out_); }
  std::string indentation(int levels) const { return std::string(2 * (levels + nesting_), ' '); }

  void header() {
    if (!trace_.provenance.empty()) {
      fmt::format_to(end(), "# Constructed by {}", one_line(trace_.provenance));
      if (options_.times) fmt::format_to(end(), " (took {:.3f} milliseconds)", trace_.milliseconds);
      out_ += '\n';
    }
    out_ += "import torch\n\n";
  }

  void region_function(const Call& call) {
    if (call.gradient) return custom_function(call);
    fmt::format_to(end(), "def {}(", names().region(call));
    parameters(tensor_arguments(call));
    out_ += "):";
    if (!call.executor.empty()) fmt::format_to(end(), "  # executor: {}", one_line(call.executor));
    out_ += '\n';
    body(call.body, call.mode, -1);
    retyped_.clear();
    out_ += "  return";
    bool first = true;
    for (const Arg& result : call.results) {
      out_ += std::exchange(first, false) ? " " : ", ";
      if (result.kind == Arg::Kind::Value) {
        names().append(out_, result.values[0]);
      } else {
        out_ += "None";
      }
    }
    out_ += "\n\n";
  }

  // A statement of the function that is being written.
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    out_ += indentation(1);
    fmt::format_to(end(), text, std::forward<Args>(args)...);
    out_ += '\n';
  }

  // "t1, None"
  std::string listed(c10::ArrayRef<ValueId> ids) const {
    std::string text;
    for (ValueId id : ids)
      text += (text.empty() ? "" : ", ") + (id == kNoValue ? "None" : names().of(id));
    return text;
  }

  void custom_function(const Call& call) {
    fmt::format_to(end(), "class {}(torch.autograd.Function):", names().region(call));
    if (!call.executor.empty()) fmt::format_to(end(), "  # executor: {}", one_line(call.executor));
    out_ += '\n';
    nesting_ = 1;
    custom_forward(call);
    custom_backward(call);
    nesting_ = 0;
    retyped_.clear();
    out_ += "\n";
  }

  void custom_forward(const Call& call) {
    const CustomGradient& gradient = *call.gradient;
    std::vector<ValueId> arguments, around, results;
    for_each_value(call.args, [&](ValueId id) {
      (arguments.size() < gradient.differentiable ? arguments : around).push_back(id);
    });
    for_each_value(call.results, [&](ValueId id) { results.push_back(id); });
    out_ += "  @staticmethod\n  def forward(ctx";
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto before = arguments.begin() + static_cast<ptrdiff_t>(i);
      const bool repeated = std::find(arguments.begin(), before, arguments[i]) != before;
      out_ += ", " + (repeated ? fmt::format("_{}", i) : names().of(arguments[i]));
    }
    out_ += around.empty() ? "):\n" : ", around):\n";
    if (!around.empty()) line("({},) = around", listed(around));
    body(call.body, GradMode::NoGrad, -1);
    if (!gradient.saved.empty()) line("ctx.save_for_backward({})", listed(gradient.saved));
    if (!gradient.kept.empty()) line("ctx.kept = ({},)", listed(gradient.kept));
    if (!gradient.dirty.empty()) line("ctx.mark_dirty({})", listed(gradient.dirty));
    if (!gradient.non_differentiable.empty())
      line("ctx.mark_non_differentiable({})", listed(gradient.non_differentiable));
    if (!gradient.zeros_for_none) line("ctx.set_materialize_grads(False)");
    line("return {}", listed(results));
    out_ += '\n';
  }

  void custom_backward(const Call& call) {
    const CustomGradient& gradient = *call.gradient;
    out_ += "  @staticmethod\n  @torch.autograd.function.once_differentiable\n";
    out_ += "  def backward(ctx, *gradients):\n";
    if (!gradient.saved.empty()) line("({},) = ctx.saved_tensors", listed(gradient.saved));
    if (!gradient.kept.empty()) line("({},) = ctx.kept", listed(gradient.kept));
    const bool choice = gradient.cases.size() > 1;
    for (const CustomGradient::Case& one : gradient.cases) {
      if (choice) {
        std::string pattern;
        for (bool given : one.given)
          pattern += fmt::format("{}{}", pattern.empty() ? "" : ", ", given ? "True" : "False");
        line("if [x is not None for x in gradients] == [{}]:", pattern);
        ++nesting_;
      }
      case_of_backward(call, one);
      if (choice) --nesting_;
    }
    if (choice) line("raise RuntimeError(\"no backward was captured for these gradients\")");
  }

  void case_of_backward(const Call& call, const CustomGradient::Case& one) {
    std::string names_of_gradients;
    for (ValueId id : one.gradients) names_of_gradients += names().of(id) + ", ";
    line("{}= gradients", names_of_gradients);
    for (ValueId id : one.gradients)
      if (id != kNoValue) {
        out_ += indentation(1) + "# ";
        append_type(id);
        out_ += '\n';
      }
    body(one.calls, GradMode::NoGrad, -1);
    std::vector<ValueId> results = one.results;
    results.resize(
        call.gradient->differentiable + (call.args.size() > call.gradient->differentiable ? 1 : 0),
        kNoValue);
    line("return {}", listed(results));
  }

  void decorators() {
    fmt::format_to(end(), "@{}\n", grad_mode_text(trace_.mode));
    for (c10::DeviceType device : autocast_devices(trace_))
      fmt::format_to(end(), "@torch.autocast(\"{}\", enabled=False)\n",
                     c10::DeviceTypeName(device, /*lower_case=*/true));
  }

  void signature() {
    std::vector<ValueId> ids;
    for (const Input& input : trace_.inputs) ids.push_back(input.id);
    fmt::format_to(end(), "def {}(", names().function());
    parameters(ids);
    out_ += "):\n";
    for (const Input& input : trace_.inputs) {
      out_ += "  # ";
      append_type(input.id);
      if (!input.path.empty()) out_.append("  ").append(one_line(input.path));
      out_ += '\n';
    }
    const bool has_source = std::any_of(trace_.calls.begin(), trace_.calls.end(),
                                        [](const Call& call) { return call.source >= 0; });
    if (!trace_.inputs.empty() && has_source) out_ += '\n';
  }

  void parameters(const std::vector<ValueId>& ids) {
    bool first = true;
    for (ValueId id : ids) {
      if (!std::exchange(first, false)) out_ += ", ";
      names().append(out_, id);
    }
  }

  void body(const std::vector<Call>& calls, GradMode mode, int32_t epilogue) {
    Place place{mode, mode};
    for (size_t i = 0; i < calls.size(); ++i) {
      if (static_cast<int32_t>(i) == epilogue) {
        place.mode = mode;
        line("# epilogue: writes to inputs, and outputs that alias them");
      }
      enter(calls[i], place);
      call_lines(calls[i], place.indent());
    }
  }

  void enter(const Call& call, Place& place) {
    if (call.mode != place.mode) {
      place.mode = call.mode;
      if (call.mode != place.outer) line("with {}:", grad_mode_change(place.outer, call.mode));
    }
    if (call.source < 0 || call.source == place.source) return;
    const SourceLine& line = trace_.sources.at(call.source);
    const bool same_line = place.source >= 0 && is_same_line(line, trace_.sources[place.source]);
    place.source = call.source;
    if (same_line) return;
    fmt::format_to(end(), "{}# {}:{}:", indentation(place.indent()), file_name(one_line(line.file)),
                   line.line);
    if (!line.code.empty()) fmt::format_to(end(), "  {}", one_line(line.code));
    out_ += '\n';
  }

  void call_lines(const Call& call, int indent) {
    const bool shows_body = call.op.aten && options_.depth > 0;
    const Retypings before = shows_body ? retyped_ : Retypings();
    out_ += indentation(indent);
    const std::string note = calls_.append(out_, call);
    retype(call, retyped_);
    comments(call, note, indent);
    if (shows_body) {
      Retypings after = std::exchange(retyped_, before);
      body_comments(call, options_.depth, indent);
      retyped_ = std::move(after);
    }
    if (call.frees.empty()) return;
    out_.append(indentation(indent)).append("del ");
    parameters(call.frees);
    out_ += '\n';
  }

  // The types of what was made, on the call's line or below it; then what else is to be known.
  void comments(const Call& call, const std::string& note, int indent) {
    const std::vector<ValueId> made = call.op.aten ? described(call) : std::vector<ValueId>();
    const bool below = made.size() > kInlineTypes;
    if (!made.empty() && !below) {
      out_ += "  # ";
      types(made, ", ");
    }
    if (!call.executor.empty() && call.op.aten)
      fmt::format_to(end(), "  # executor: {}", one_line(call.executor));
    if (!note.empty()) fmt::format_to(end(), "  # note: {}", one_line(note));
    if (below) {
      const std::string line = "\n" + indentation(indent) + "# ";
      out_ += line;
      types(made, line);
    }
    out_ += '\n';
  }

  // The results of a call, then what it changed the geometry of.
  static std::vector<ValueId> described(const Call& call) {
    std::vector<ValueId> ids;
    for_each_value(call.results, [&](ValueId id) { ids.push_back(id); });
    for (const Retyped& retyped : call.retyped)
      if (std::find(ids.begin(), ids.end(), retyped.id) == ids.end()) ids.push_back(retyped.id);
    return ids;
  }

  void types(const std::vector<ValueId>& ids, std::string_view separator) {
    bool first = true;
    for (ValueId id : ids) {
      if (!std::exchange(first, false)) out_ += separator;
      append_type(id);
    }
  }

  void append_type(ValueId id) {
    const auto retyped = retyped_.find(id);
    names().append(out_, id);
    out_.append(": \"");
    out_.append(print_type(retyped != retyped_.end() ? *retyped->second : type_of(trace_, id)));
    out_ += '"';
  }

  void body_comments(const Call& call, int depth, int indent) {
    for (const Call& inner : call.body) {
      out_.append(indentation(indent + 1)).append("# ");
      const std::string note = calls_.append(out_, inner);
      retype(inner, retyped_);
      comments(inner, note, indent + 1);
      if (depth > 1) body_comments(inner, depth - 1, indent + 1);
    }
  }

  const Trace& trace_;
  const PrintOptions& options_;
  CallText calls_;
  Retypings retyped_;
  int nesting_ = 0;  // of the function that is being written
  std::string out_;
};

}  // namespace

std::string print(const Trace& trace, const PrintOptions& options) {
  return Program(trace, options).text();
}

std::string spell(const Trace& trace, ValueId id) { return Names(trace).of(id); }

std::string print_call(const Trace& trace, const Call& call) {
  std::string out;
  CallText(trace).append(out, call);
  return out;
}

}  // namespace fulgurite
