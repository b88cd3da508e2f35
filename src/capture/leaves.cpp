// Tensors that the program itself makes leaves of the graph: requires_grad_(), nn.Parameter().
//
// Torch has no operator for it that a capture would see. That a leaf requires grad matters where an
// output's graph leads to it: then the trace makes it one, too, before the first call that uses it.
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_set>

#include "capture/state.h"
#include "ops/facts.h"

namespace fulgurite {
namespace {

// The trace's leaves that the outputs' graphs lead to.
std::unordered_set<ValueId> leaves_behind(const std::vector<at::Tensor>& outputs) {
  std::unordered_set<ValueId> found;
  std::unordered_set<const torch::autograd::Node*> seen;
  std::vector<const torch::autograd::Node*> open;
  const auto visit = [&](const torch::autograd::Node* node) {
    if (node && seen.insert(node).second) open.push_back(node);
  };
  const auto add = [&](const at::Tensor& leaf) {
    if (const auto* traced = as_trace(leaf)) found.insert(traced->id);
  };
  for (const at::Tensor& output : outputs) {
    if (!output.defined() || !output.requires_grad()) continue;
    if (output.is_leaf()) add(output);
    visit(output.grad_fn().get());
  }
  while (!open.empty()) {
    const torch::autograd::Node* node = open.back();
    open.pop_back();
    if (const auto* end = dynamic_cast<const torch::autograd::AccumulateGrad*>(node))
      add(end->variable);
    for (const torch::autograd::Edge& edge : node->next_edges()) visit(edge.function.get());
  }
  return found;
}

Call require_grad(ValueId id, const std::vector<Call>& calls, size_t at) {
  static const c10::OperatorHandle op = find_op("aten::requires_grad_");
  Call call;
  call.op = op;
  call.args = {Arg::of(id), Arg::literal(true)};
  call.results = {Arg::of(id)};
  call.mode = GradMode::Grad;
  if (at < calls.size()) {
    call.source = calls[at].source;
    call.module = calls[at].module;
  }
  return call;
}

// Without the leaves that nobody needs, their descendants require no grad either.
class Descendants {
 public:
  Descendants(Trace& trace, const std::unordered_set<ValueId>& needed)
      : trace_(trace), requires_grad_(trace.values.size()) {
    for (const Input& input : trace.inputs)
      requires_grad_[input.id] = trace.values[input.id].type.requires_grad;
    for (ValueId id : needed) requires_grad_[id] = true;
  }

  void settle(std::vector<Call>& calls) {
    for (Call& call : calls) {
      bool any = false;
      for_each_value(call.args, [&](ValueId id) { any |= requires_grad_[id]; });
      for_each_value(call.results, [&](ValueId id) {
        bool& required = trace_.values[id].type.requires_grad;
        required = required && (any || requires_grad_[id]);
        requires_grad_[id] = requires_grad_[id] || required;
      });
      settle(call.body);
    }
  }

 private:
  Trace& trace_;
  std::vector<bool> requires_grad_;
};

}  // namespace

void Tracer::State::note_leaf(ValueId id) {
  for (const Leaf& known : leaves)
    if (known.id == id) return;
  leaves.push_back({id, trace.calls.size()});
}

void Tracer::State::settle_alias_writes() {
  for (const AliasWrite& write : alias_writes) {
    const auto check = [&](ValueId id) {
      if (id == kNoValue || trace.values[id].type.storage != write.storage) return;
      const auto base = bases.find(id);
      if ((base == bases.end() ? id : base->second) != write.base) raise(write.refusal);
    };
    for (size_t i = write.call + 1; i < trace.calls.size(); ++i)
      for_each_value(trace.calls[i].args, check);
    for (ValueId id : trace.outputs) check(id);
  }
}

void Tracer::State::settle_leaves(const std::vector<at::Tensor>& outputs) {
  for (const Argument& argument : arguments) {
    const ValueId id = as_trace(argument.traced)->id;
    if (argument.traced.requires_grad() == trace.values[id].type.requires_grad) continue;
    tracer->refuse(fmt::format("the argument {} is made to {} grad", trace.values[id].name,
                               argument.traced.requires_grad() ? "require" : "no longer require"),
                   "do that before the call, or on a copy: x = x.detach().requires_grad_()");
  }
  if (leaves.empty()) return;
  const std::unordered_set<ValueId> needed = leaves_behind(outputs);
  Descendants(trace, needed).settle(trace.calls);
  for (size_t i = leaves.size(); i-- > 0;)
    if (const auto& [id, before] = leaves[i]; needed.contains(id))
      trace.calls.insert(trace.calls.begin() + static_cast<std::ptrdiff_t>(before),
                         require_grad(id, trace.calls, before));
}

}  // namespace fulgurite
