#include "capture/normalise.h"

#include <algorithm>

namespace fulgurite {
namespace {

bool mentions(const std::vector<Arg>& args, ValueId id) {
  bool found = false;
  for_each_value(args, [&](ValueId other) { found |= other == id; });
  return found;
}

// Goes through the program backwards with the set of values that are used later.
class Opener {
 public:
  explicit Opener(const Trace& trace) : used_(trace.values.size()), seen_(trace.values.size()) {
    for (ValueId id : trace.outputs) used_[id] = true;
  }

  std::vector<Call> run(std::vector<Call> calls) {
    std::vector<Call> reversed;
    reversed.reserve(calls.size());
    visit(calls, reversed);
    std::reverse(reversed.begin(), reversed.end());
    return reversed;
  }

 private:
  void visit(std::vector<Call>& calls, std::vector<Call>& reversed) {
    for (size_t i = calls.size(); i-- > 0;) {
      Call& call = calls[i];
      if (escapes(call.body, call)) {
        for (Call& part : call.body) {
          part.source = call.source;
          part.module = call.module;
        }
        visit(call.body, reversed);
        continue;
      }
      drop_open_bodies(call);
      for_each_value(call.args, [&](ValueId id) { used_[id] = true; });
      reversed.push_back(std::move(call));
    }
  }

  // A value made inside of `call`, and not handed out by it, is used later.
  bool escapes(const std::vector<Call>& body, const Call& call) const {
    return std::any_of(body.begin(), body.end(), [&](const Call& part) {
      bool hidden = false;
      for_each_value(part.results, [&](ValueId id) {
        hidden |= used_[id] && !mentions(part.args, id) && !mentions(call.results, id);
      });
      return hidden || escapes(part.body, call);
    });
  }

  // A body that uses what its call does not get (a kernel in Python with a tensor of its own), or
  // does not make what the call gives, tells less than the operator: the call is a primitive.
  void drop_open_bodies(Call& call) {
    if (!call.op.aten || call.body.empty()) return;
    for (Call& part : call.body) drop_open_bodies(part);
    const int32_t scope = ++scopes_;
    bool closed = true;
    const auto enter = [&](ValueId id) { seen_[id] = scope; };
    const auto require_seen = [&](ValueId id) { closed &= seen_[id] == scope; };
    for_each_value(call.args, enter);
    for (const Call& part : call.body) {
      for_each_value(part.args, require_seen);
      for_each_value(part.results, enter);
    }
    for_each_value(call.results, require_seen);
    if (!closed) call.body.clear();
  }

  std::vector<bool> used_;
  std::vector<int32_t> seen_;  // the last body in which a value was made or given
  int32_t scopes_ = 0;
};

bool any_requires_grad(const Trace& trace) {
  const auto requires_grad = [&](ValueId id) { return trace.values[id].type.requires_grad; };
  for (const Input& input : trace.inputs)
    if (requires_grad(input.id)) return true;
  bool found = false;
  for (const Call& call : trace.calls)
    for_each_value(call.results, [&](ValueId id) { found |= requires_grad(id); });
  return found;
}

// Puts `original` in the place of its copy, which has the same layout.
class CopyRemoval {
 public:
  explicit CopyRemoval(Trace& trace) : trace_(trace), to_(trace.values.size(), kNoValue) {}

  void remove(const ConstantCopy& copy) {
    to_[copy.copy] = copy.original;
    storage_of_[storage(copy.copy)] = storage(copy.original);
  }

  void run() {
    if (storage_of_.empty()) return;
    rename(trace_.calls);
    for (ValueId& id : trace_.outputs) id = renamed(id);
    for (Value& value : trace_.values)
      if (auto it = storage_of_.find(value.type.storage); it != storage_of_.end())
        value.type.storage = it->second;
  }

 private:
  StorageId storage(ValueId id) const { return trace_.values[id].type.storage; }
  ValueId renamed(ValueId id) const { return id == kNoValue || to_[id] == kNoValue ? id : to_[id]; }
  bool is_removed(const Call& call) const {
    bool removed = false;
    for_each_value(call.results,
                   [&](ValueId id) { removed |= to_[id] != kNoValue && !mentions(call.args, id); });
    return removed;
  }
  void rename(std::vector<Call>& calls) const {
    std::erase_if(calls, [&](const Call& call) { return is_removed(call); });
    for (Call& call : calls) {
      for (auto* args : {&call.args, &call.results})
        for (Arg& arg : *args)
          for (ValueId& id : arg.values) id = renamed(id);
      rename(call.body);
    }
  }

  Trace& trace_;
  std::vector<ValueId> to_;
  std::unordered_map<StorageId, StorageId> storage_of_;
};

bool same_layout(const TensorType& a, const TensorType& b) {
  return a.sizes == b.sizes && a.strides == b.strides && a.offset == b.offset &&
         a.nbytes == b.nbytes && a.conj == b.conj && a.neg == b.neg;
}

// Nobody can tell the copy from the original: it is neither written, retyped nor given away.
bool is_needless(const Trace& trace, const ConstantCopy& copy) {
  if (copy.written) return false;
  const TensorType& type = trace.values[copy.copy].type;
  if (!same_layout(type, trace.values[copy.original].type)) return false;
  const auto is_copy = [&](ValueId id) { return trace.values[id].type.storage == type.storage; };
  if (std::any_of(trace.outputs.begin(), trace.outputs.end(), is_copy)) return false;
  return std::all_of(trace.calls.begin(), trace.calls.end(), [&](const Call& call) {
    return std::none_of(call.retyped.begin(), call.retyped.end(), [&](const Retyped& retyped) {
      return is_copy(retyped.id) || retyped.type.storage == type.storage;
    });
  });
}

// Without anything to differentiate, grad mode and no_grad are the same.
void drop_grad_mode(std::vector<Call>& calls) {
  for (Call& call : calls) {
    if (call.mode == GradMode::Grad) call.mode = GradMode::NoGrad;
    drop_grad_mode(call.body);
  }
}

}  // namespace

Trace normalise(Trace trace, GradMode entry_mode, const std::vector<ConstantCopy>& copies) {
  CopyRemoval removal(trace);
  for (const ConstantCopy& copy : copies)
    if (is_needless(trace, copy)) removal.remove(copy);
  removal.run();
  trace.calls = Opener(trace).run(std::move(trace.calls));
  trace.mode = entry_mode;
  if (entry_mode != GradMode::Inference && !any_requires_grad(trace)) {
    trace.mode = GradMode::NoGrad;
    drop_grad_mode(trace.calls);
  }
  return trace;
}

}  // namespace fulgurite
