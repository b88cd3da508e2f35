#include "ir/verify.h"

#include <unordered_set>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/call_text.h"
#include "ir/schema_check.h"

namespace fulgurite {
namespace {

// The top level of a trace is scope 0; each body is a scope of its own.
using Scope = int;

enum class State : uint8_t { Unmade, Made, Inner, Freed };

struct Known {
  State state = State::Unmade;
  Scope scope = 0;  // where it may be used, once made
};

class Verifier {
 public:
  Verifier(const Trace& trace, const std::string& after)
      : trace_(trace), after_(after), known_(trace.values.size()) {}

  void run() {
    inputs();
    for (size_t i = 0; i < trace_.calls.size(); ++i) {
      top_call_ = static_cast<int32_t>(i);
      call(trace_.calls[i], 0);
    }
    current_ = nullptr;
    check(trace_.epilogue >= -1 && trace_.epilogue <= static_cast<int64_t>(trace_.calls.size()),
          "the epilogue begins at call {} of {}", trace_.epilogue, trace_.calls.size());
    outputs();
  }

 private:
  template <class... Args>
  void check(bool holds, fmt::format_string<Args...> text, Args&&... args) const {
    if (!holds) [[unlikely]]
      fail(fmt::format(text, std::forward<Args>(args)...));
  }

  [[noreturn]] void fail(const std::string& what) const {
    const std::string where = after_.empty() ? "The captured trace" : "The trace after " + after_;
    if (!current_) internal_error("{} is not well formed: {}", where, what);
    std::string line;
    CallText(trace_).append(line, *current_);
    internal_error("{} is not well formed: {}\n  in call {}: {}", where, what, top_call_, line);
  }

  std::string name(ValueId id) const { return Names(trace_).of(id); }

  Known& known(ValueId id) {
    if (id < 0 || static_cast<size_t>(id) >= known_.size())
      fail(fmt::format("there is no value {}", id));
    return known_[id];
  }

  void inputs() {
    bool lifted = false;
    for (const Input& input : trace_.inputs) {
      make(input.id, 0);
      inputs_.insert(type_of(trace_, input.id).storage);
      const bool argument = input.kind == InputKind::Argument;
      if (argument && lifted) fail(name(input.id) + " is an argument after a lifted tensor");
      lifted = !argument;
    }
  }

  void make(ValueId id, Scope scope) {
    Known& value = known(id);
    if (value.state != State::Unmade) fail(name(id) + " is made twice");
    value = {State::Made, scope};
    type(id, type_of(trace_, id));
  }

  void type(ValueId id, const TensorType& type) const {
    if (type.sizes.size() != type.strides.size())
      fail(fmt::format("{} has {} sizes and {} strides", name(id), type.sizes.size(),
                       type.strides.size()));
    if (type.storage < 0 || type.storage >= trace_.storages)
      fail(fmt::format("{} has storage {} of {}", name(id), type.storage, trace_.storages));
  }

  void use(ValueId id, Scope scope) {
    const Known& value = known(id);
    switch (value.state) {
      case State::Made:
        break;
      case State::Unmade:
        fail(name(id) + " is used before it is made");
      case State::Freed:
        fail(name(id) + " is used after it was freed");
      case State::Inner:
        fail(name(id) + " is made in the body of a call and used outside");
    }
    if (value.scope != scope)
      fail(name(id) + " is used in the body of a call that does not get it");
  }

  void call(const Call& call, Scope scope) {
    current_ = &call;
    if (call.op.aten) {
      if (std::string fault = schema_fault(call); !fault.empty()) fail(fault);
    } else {
      region(call);
    }
    check(call.source < static_cast<int64_t>(trace_.sources.size()), "there is no source line {}",
          call.source);
    check(call.module < static_cast<int64_t>(trace_.modules.size()), "there is no module {}",
          call.module);
    for_each_value(call.args, [&](ValueId id) { use(id, scope); });
    const bool has_body = !call.body.empty() || !call.op.aten;
    if (has_body) {
      body(call, scope);
      current_ = &call;
    } else {
      results(call, scope);
    }
    writes(call);
    retyped(call, scope);
    for (ValueId id : call.frees) {
      use(id, scope);
      known(id).state = State::Freed;
    }
  }

  void region(const Call& call) const {
    check(!call.op.region.empty(), "a region has no name");
    for (const Arg& arg : call.args)
      check(arg.kind != Arg::Kind::Constant, "a region takes tensors alone, not a constant");
    for (const Arg& result : call.results)
      check(result.kind != Arg::Kind::ValueList, "a region gives tensors alone, not a list");
  }

  // Results that are no arguments handed back are new.
  void results(const Call& call, Scope scope) {
    const std::vector<ValueId> given = tensor_arguments(call);
    for_each_value(call.results, [&](ValueId id) {
      if (std::find(given.begin(), given.end(), id) == given.end()) make(id, scope);
    });
  }

  void body(const Call& call, Scope scope) {
    const Scope inner = ++scopes_;
    const std::vector<ValueId> given = tensor_arguments(call);
    for (ValueId id : given) known_[id] = {State::Made, inner};
    for (const Call& nested : call.body) this->call(nested, inner);
    current_ = &call;
    for_each_value(call.results, [&](ValueId id) {
      const Known& value = known(id);
      if (value.state != State::Made || value.scope != inner)
        fail("its body does not make " + name(id));
    });
    if (call.gradient) gradient(call, inner);
    current_ = &call;
    for (ValueId id : given) known_[id] = {State::Made, scope};
    for_each_value(call.results, [&](ValueId id) { known_[id].scope = scope; });
    hide(call.body, inner);
    if (!call.gradient) return;
    for (const CustomGradient::Case& one : call.gradient->cases) {
      hide(one.calls, inner);
      for (ValueId id : one.gradients)
        if (id != kNoValue) known_[id].state = State::Inner;
    }
  }

  void gradient(const Call& call, Scope inner) {
    const CustomGradient& gradient = *call.gradient;
    check(gradient.differentiable <= call.args.size(), "it differentiates {} of {} arguments",
          gradient.differentiable, call.args.size());
    for (const auto* ids :
         {&gradient.saved, &gradient.kept, &gradient.dirty, &gradient.non_differentiable})
      for (ValueId id : *ids) use(id, inner);
    for (const CustomGradient::Case& one : gradient.cases) {
      check(one.given.size() == call.results.size() && one.gradients.size() == call.results.size(),
            "{} gradients for {} results", one.gradients.size(), call.results.size());
      for (ValueId id : one.gradients)
        if (id != kNoValue) make(id, inner);
      for (const Call& nested : one.calls) this->call(nested, inner);
      current_ = &call;
      check(one.results.size() == gradient.differentiable, "{} gradients of {} arguments",
            one.results.size(), gradient.differentiable);
      for (ValueId id : one.results)
        if (id != kNoValue) use(id, inner);
    }
  }

  // What was made in a scope and did not become a result.
  void hide(const std::vector<Call>& calls, Scope inner) {
    for (const Call& call : calls)
      for_each_value(call.results, [&](ValueId id) {
        if (known_[id].scope == inner) known_[id].state = State::Inner;
      });
  }

  // Up to the epilogue, what the caller owns is as it was.
  void writes(const Call& call) const {
    if (trace_.epilogue < 0 || top_call_ >= trace_.epilogue || !call.op.aten) return;
    const auto& arguments = call.op.aten->schema().arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].alias_info() || !arguments[i].alias_info()->isWrite()) continue;
      for (ValueId id : call.args[i].values)
        if (id != kNoValue && inputs_.contains(type_of(trace_, id).storage))
          fail(name(id) + " is written before the epilogue, and an input has its memory");
    }
  }

  void retyped(const Call& call, Scope scope) {
    for (const Retyped& retyped : call.retyped) {
      use(retyped.id, scope);
      type(retyped.id, retyped.type);
    }
  }

  void outputs() {
    for (ValueId id : trace_.outputs) use(id, 0);
    std::vector<bool> seen(trace_.outputs.size());
    tree(trace_.output_tree, seen);
    for (size_t i = 0; i < seen.size(); ++i)
      check(seen[i], "output {} is not in the tree of outputs", i);
  }

  void tree(const OutputTree& node, std::vector<bool>& seen) const {
    using Kind = OutputTree::Kind;
    if (node.kind == Kind::Leaf) {
      const auto leaf = static_cast<size_t>(node.leaf);
      check(leaf < seen.size(), "the tree of outputs has leaf {} of {}", node.leaf, seen.size());
      seen[leaf] = true;
    }
    if (node.kind == Kind::Leaf || node.kind == Kind::Constant)
      check(node.children.empty(), "the tree of outputs has a leaf with children");
    if (node.kind == Kind::Dict || (node.kind == Kind::Object && !node.keys.empty()))
      check(node.keys.size() == node.children.size(),
            "the tree of outputs has {} keys for {} values", node.keys.size(),
            node.children.size());
    for (const OutputTree& child : node.children) tree(child, seen);
  }

  const Trace& trace_;
  const std::string& after_;
  std::vector<Known> known_;
  std::unordered_set<StorageId> inputs_;  // the storages of
  const Call* current_ = nullptr;
  int32_t top_call_ = -1;
  Scope scopes_ = 0;
};

}  // namespace

void verify(const Trace& trace, const std::string& after) { Verifier(trace, after).run(); }

}  // namespace fulgurite
