#include "capture/normalise.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/rename.h"

namespace fulgurite {
namespace {

bool mentions(const std::vector<Arg>& args, ValueId id) {
  bool found = false;
  for_each_value(args, [&](ValueId other) { found |= other == id; });
  return found;
}

// What the calls make, their parts included, in order.
std::vector<ValueId> made_by(const std::vector<Call>& calls) {
  std::vector<ValueId> made;
  for (const Call& call : calls) {
    const std::vector<ValueId> inner = made_by(call.body);
    made.insert(made.end(), inner.begin(), inner.end());
    for_each_value(call.results, [&](ValueId id) {
      if (!mentions(call.args, id) && std::find(inner.begin(), inner.end(), id) == inner.end())
        made.push_back(id);
    });
  }
  return made;
}

// Puts custom functions by their forward, where nothing is differentiated.
void open_custom(std::vector<Call>& calls) {
  std::vector<Call> opened;
  opened.reserve(calls.size());
  for (Call& call : calls) {
    if (!call.gradient) {
      opened.push_back(std::move(call));
      continue;
    }
    open_custom(call.body);
    std::move(call.body.begin(), call.body.end(), std::back_inserter(opened));
  }
  calls = std::move(opened);
}

// Without anything to differentiate, grad mode and no_grad are the same.
void drop_grad_mode(std::vector<Call>& calls) {
  for (Call& call : calls) {
    if (call.mode == GradMode::Grad) call.mode = GradMode::NoGrad;
    drop_grad_mode(call.body);
  }
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
      if (call.gradient) {
        open_within(call);
      } else if (escapes(call.body, call)) {
        for (Call& part : call.body) {
          part.source = call.source;
          part.module = call.module;
        }
        visit(call.body, reversed);
        continue;
      } else {
        drop_open_bodies(call);
      }
      for_each_value(call.args, [&](ValueId id) { used_[id] = true; });
      reversed.push_back(std::move(call));
    }
  }

  // A custom function is not opened, which would lose its gradient: what escapes is one of its
  // results, and what it takes from around it is one of its arguments.
  void open_within(Call& call) {
    CustomGradient gradient = *call.gradient;
    for (CustomGradient::Case& one : gradient.cases) refuse_escapes(call, one);
    hand_out_escapes(call, gradient);
    for (CustomGradient::Case& one : gradient.cases) {
      for (ValueId id : one.results)
        if (id != kNoValue) used_[id] = true;
      open_custom(one.calls);
      drop_grad_mode(one.calls);
      one.calls = run(std::move(one.calls));
      for (ValueId& id : one.gradients)
        if (id != kNoValue && !used_[id]) id = kNoValue;
    }
    for (ValueId id : gradient.saved) used_[id] = true;
    for_each_value(call.results, [&](ValueId id) { used_[id] = true; });
    call.body = run(std::move(call.body));
    take_from_around(call, gradient);
    call.gradient = std::make_shared<const CustomGradient>(std::move(gradient));
  }

  void refuse_escapes(const Call& call, const CustomGradient::Case& one) const {
    std::vector<ValueId> made = made_by(one.calls);
    made.insert(made.end(), one.gradients.begin(), one.gradients.end());
    for (ValueId id : made)
      if (id != kNoValue && used_[id])
        throw Unsupported(fmt::format(
            "a tensor that the backward of {} makes is kept beyond it; return it from the backward",
            call.op.region));
  }

  void hand_out_escapes(Call& call, CustomGradient& gradient) const {
    for (ValueId id : made_by(call.body)) {
      if (!used_[id] || mentions(call.results, id) || mentions(call.args, id)) continue;
      call.results.push_back(Arg::of(id));
      gradient.non_differentiable.push_back(id);
      for (CustomGradient::Case& one : gradient.cases) {
        one.given.push_back(gradient.zeros_for_none);
        one.gradients.push_back(kNoValue);
      }
    }
  }

  static void take_from_around(Call& call, CustomGradient& gradient) {
    std::unordered_set<ValueId> known;
    for_each_value(call.args, [&](ValueId id) { known.insert(id); });
    const auto need = [&](ValueId id) {
      if (id != kNoValue && known.insert(id).second) call.args.push_back(Arg::of(id));
    };
    const auto look = [&](const std::vector<Call>& calls) {
      for (const Call& part : calls) {
        for_each_value(part.args, need);
        for_each_value(part.results, [&](ValueId id) { known.insert(id); });
      }
    };
    look(call.body);
    std::unordered_set<ValueId> held(gradient.saved.begin(), gradient.saved.end());
    for (ValueId id : gradient.saved) need(id);
    for (CustomGradient::Case& one : gradient.cases) {
      std::unordered_set<ValueId> made(one.gradients.begin(), one.gradients.end());
      const auto use = [&](ValueId id) {
        if (id == kNoValue || made.contains(id)) return;
        need(id);
        if (held.insert(id).second) gradient.kept.push_back(id);
      };
      for (const Call& part : one.calls) {
        for_each_value(part.args, use);
        for_each_value(part.results, [&](ValueId id) {
          if (!mentions(part.args, id)) made.insert(id);
        });
      }
      for (ValueId id : one.results) use(id);
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
  explicit CopyRemoval(Trace& trace)
      : trace_(trace), renaming_(trace.values.size()), removed_(trace.values.size()) {}

  void remove(const ConstantCopy& copy) {
    renaming_.set(copy.copy, copy.original);
    removed_[copy.copy] = true;
    storage_of_[storage(copy.copy)] = storage(copy.original);
  }

  void run() {
    if (storage_of_.empty()) return;
    drop_copies(trace_.calls);
    for (Call& call : trace_.calls) renaming_.apply(call);
    renaming_.apply(trace_.outputs);
    for (Value& value : trace_.values)
      if (auto it = storage_of_.find(value.type.storage); it != storage_of_.end())
        value.type.storage = it->second;
  }

 private:
  StorageId storage(ValueId id) const { return trace_.values[id].type.storage; }
  bool makes_copy(const Call& call) const {
    bool made = false;
    for_each_value(call.results,
                   [&](ValueId id) { made |= removed_[id] && !mentions(call.args, id); });
    return made;
  }
  void drop_copies(std::vector<Call>& calls) const {
    std::erase_if(calls, [&](const Call& call) { return makes_copy(call); });
    for (Call& call : calls) {
      drop_copies(call.body);
      if (!call.gradient) continue;
      CustomGradient gradient = *call.gradient;
      for (CustomGradient::Case& one : gradient.cases) drop_copies(one.calls);
      call.gradient = std::make_shared<const CustomGradient>(std::move(gradient));
    }
  }

  Trace& trace_;
  Renaming renaming_;
  std::vector<bool> removed_;
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

bool hands_out_history(const Trace& trace) {
  return std::any_of(trace.outputs.begin(), trace.outputs.end(), [&](ValueId id) {
    const bool is_input = std::any_of(trace.inputs.begin(), trace.inputs.end(),
                                      [id](const Input& input) { return input.id == id; });
    return !is_input && trace.values[id].type.requires_grad;
  });
}

}  // namespace

Trace normalise(Trace trace, GradMode entry_mode, const std::vector<ConstantCopy>& copies) {
  CopyRemoval removal(trace);
  for (const ConstantCopy& copy : copies)
    if (is_needless(trace, copy)) removal.remove(copy);
  removal.run();
  // With grad mode switched on inside: the results are differentiated outside.
  const bool differentiated =
      entry_mode == GradMode::Grad || (entry_mode == GradMode::NoGrad && hands_out_history(trace));
  if (!differentiated) open_custom(trace.calls);
  trace.calls = Opener(trace).run(std::move(trace.calls));
  trace.mode = differentiated ? GradMode::Grad : entry_mode;
  if (entry_mode != GradMode::Inference && !any_requires_grad(trace)) {
    trace.mode = GradMode::NoGrad;
    drop_grad_mode(trace.calls);
  }
  return trace;
}

}  // namespace fulgurite
