#include "passes/saved_values.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "ops/facts.h"
#include "passes/flow_network.h"
#include "passes/memory.h"

namespace fulgurite {
namespace {

constexpr int64_t kNever = kUnlimited;
// Of values with as many bytes, what is cheap is not kept: the other one is in memory anyway.
constexpr int64_t kTies = 16;

// Values that the needed ones come from, as far as they may be computed again.
class Cut {
 public:
  // `may_repeat`: of the calls that can be computed again at all. `any_input`: inputs are there for
  // that, whoever writes to them.
  Cut(const Trace& trace, const std::vector<size_t>& forward,
      std::function<bool(const Call&)> may_repeat, const std::function<bool(const Call&)>& late,
      bool any_input)
      : trace_(trace),
        may_repeat_(std::move(may_repeat)),
        any_input_(any_input),
        maker_(trace.values.size(), nullptr) {
    for (size_t i : forward)
      for_each_value(trace.calls[i].results, [&](ValueId id) {
        if (makes(trace.calls[i], id)) maker_[id] = &trace.calls[i];
      });
    for (size_t i : forward)
      if (late(trace.calls[i]))
        for_each_value(trace.calls[i].args,
                       [&](ValueId id) { used_.insert(type_of(trace, id).storage); });
    for (size_t i : forward)
      for_each_change(trace.calls[i],
                      [&](ValueId id) { written_.push_back(type_of(trace, id).storage); });
  }

  std::vector<ValueId> least(const std::vector<ValueId>& needed) {
    for (ValueId id : needed) used_.insert(type_of(trace_, id).storage);
    for (ValueId id : needed) visit(id);
    FlowNetwork network(2 + 2 * order_.size());
    for (size_t n = 0; n < order_.size(); ++n) {
      const ValueId id = order_[n];
      network.add(in(n), out(n), bytes_to_keep(id));
      if (again_[n])
        for_each_value(maker_[id]->args,
                       [&](ValueId arg) { network.add(out(number_.at(arg)), in(n), kNever); });
      if (!again_[n] || !has_arguments(*maker_[id])) network.add(kSource, in(n), source_of(n));
    }
    for (ValueId id : needed) network.add(out(number_.at(id)), kSink, kNever);
    require(network.maximise(kSource, kSink) < kNever, "nothing can be saved for a backward pass");
    const std::vector<bool> before_sink = network.before(kSink);
    std::vector<ValueId> saved;
    for (size_t n = 0; n < order_.size(); ++n)
      if (!before_sink[in(n)] && before_sink[out(n)]) saved.push_back(order_[n]);
    return saved;
  }

  // "" where it can be computed again.
  std::string obstacle(const Call& call) const {
    if (draws(call)) return "it draws random numbers";
    if (must_run(call) || has_effect(call)) return "its call has an effect";
    bool is_written = false;
    const auto look = [&](ValueId id) {
      is_written |= std::ranges::count(written_, type_of(trace_, id).storage) > 0;
    };
    for_each_value(call.args, look);
    for_each_value(call.results, look);
    return is_written ? "it is, or comes from, memory that is written to" : "";
  }

  std::string reason(ValueId id) const {
    if (!maker_[id]) return "it is an input";
    if (std::string found = obstacle(*maker_[id]); !found.empty()) return found;
    if (!may_repeat_(*maker_[id]))
      return fmt::format("{} takes longer than reading it", maker_[id]->op.name());
    return "what it is computed from has more bytes, or may be written to";
  }

 private:
  static constexpr size_t kSource = 0, kSink = 1;
  static size_t in(size_t n) { return 2 + 2 * n; }
  static size_t out(size_t n) { return 3 + 2 * n; }

  // Depth first, with a stack of its own: programs may be long.
  void visit(ValueId root) {
    std::vector<ValueId> open{root};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      if (!number_.emplace(id, order_.size()).second) continue;
      order_.push_back(id);
      again_.push_back(maker_[id] && may_repeat(*maker_[id]));
      if (again_.back())
        for_each_value(maker_[id]->args, [&](ValueId arg) { open.push_back(arg); });
    }
  }

  bool may_repeat(const Call& call) const {
    return obstacle(call).empty() && (is_view(call) || may_repeat_(call));
  }

  bool is_view(const Call& call) const {
    bool shares = false;
    for_each_value(call.results, [&](ValueId id) { shares |= shares_memory(call, id); });
    return shares;
  }
  bool shares_memory(const Call& call, ValueId result) const {
    bool shares = false;
    for_each_value(call.args, [&](ValueId arg) {
      shares |= type_of(trace_, arg).storage == type_of(trace_, result).storage;
    });
    return shares;
  }

  static bool has_arguments(const Call& call) {
    bool any = false;
    for_each_value(call.args, [&](ValueId) { any = true; });
    return any;
  }

  // What is made of nothing costs nothing to make again.
  int64_t source_of(size_t n) const { return again_[n] ? 0 : kNever; }

  int64_t bytes_to_keep(ValueId id) const {
    // An input that autograd does not save may be written to before the backward pass.
    if (!maker_[id]) return any_input_ || used_.contains(type_of(trace_, id).storage) ? 0 : kNever;
    if (again_[number_.at(id)] && shares_memory(*maker_[id], id)) return kNever;
    const int64_t bytes = std::max<int64_t>(1, type_of(trace_, id).nbytes);
    return kTies * bytes + (again_[number_.at(id)] ? bytes : 0);
  }

  const Trace& trace_;
  const std::function<bool(const Call&)> may_repeat_;
  const bool any_input_;
  std::vector<const Call*> maker_;  // by value; null for inputs
  std::vector<StorageId> written_;
  std::unordered_set<StorageId> used_;  // by what the backward pass needs
  std::unordered_map<ValueId, size_t> number_;
  std::vector<ValueId> order_;
  std::vector<bool> again_;  // by number: may be computed again
};

// Finds the calls to compute again beyond those that are cheap.
class Budget {
 public:
  Budget(const Trace& trace, const std::vector<size_t>& forward, const std::vector<ValueId>& needed,
         const Recomputation& recomputation)
      : trace_(trace), forward_(forward), needed_(needed), recomputation_(recomputation) {
    for (size_t i : forward) {
      const Call& call = trace.calls[i];
      if (recomputation.late(call) || recomputation.cheap(trace, call)) {
        cheap_.insert(&call);
        continue;
      }
      int64_t bytes = 1;
      for_each_value(call.results, [&](ValueId id) { bytes += type_of(trace, id).nbytes; });
      others_.emplace_back(recomputation.nanoseconds(trace, call) / static_cast<double>(bytes),
                           &call);
    }
    std::ranges::stable_sort(others_, {}, &std::pair<double, const Call*>::first);
  }

  std::vector<SavedValue> least() const {
    const bool all_is_kept = recomputation_.budget >= 1;
    std::vector<SavedValue> kept = with(0, !all_is_kept);
    if (all_is_kept) return kept;
    std::vector<SavedValue> found = with(others_.size(), true);
    const double least = bytes_of(found), most = bytes_of(kept);
    const double wanted = least + recomputation_.budget * (most - least);
    if (most <= wanted) return kept;
    // The more may be computed again, the less is kept.
    size_t too_few = 0, enough = others_.size();
    while (enough - too_few > 1) {
      const size_t middle = (enough + too_few) / 2;
      std::vector<SavedValue> tried = with(middle, true);
      if (bytes_of(tried) <= wanted) {
        enough = middle;
        found = std::move(tried);
      } else {
        too_few = middle;
      }
    }
    return found;
  }

 private:
  std::vector<SavedValue> with(size_t count, bool any_input) const {
    std::unordered_set<const Call*> allowed = cheap_;
    for (size_t i = 0; i < count; ++i) allowed.insert(others_[i].second);
    Cut cut(
        trace_, forward_, [&](const Call& call) { return allowed.contains(&call); },
        recomputation_.late, any_input);
    std::vector<SavedValue> saved;
    for (ValueId id : cut.least(needed_)) saved.push_back({id, cut.reason(id)});
    return saved;
  }

  double bytes_of(const std::vector<SavedValue>& saved) const {
    double bytes = 0;
    for (const SavedValue& value : saved)
      if (std::ranges::find(trace_.inputs, value.id, &Input::id) == trace_.inputs.end())
        bytes += static_cast<double>(type_of(trace_, value.id).nbytes);
    return bytes;
  }

  const Trace& trace_;
  const std::vector<size_t>& forward_;
  const std::vector<ValueId>& needed_;
  const Recomputation& recomputation_;
  std::unordered_set<const Call*> cheap_;
  std::vector<std::pair<double, const Call*>> others_;  // by time for a byte
};

}  // namespace

std::vector<SavedValue> saved_values(const Trace& trace, const std::vector<size_t>& forward,
                                     const std::vector<ValueId>& needed,
                                     const Recomputation& recomputation) {
  return Budget(trace, forward, needed, recomputation).least();
}

}  // namespace fulgurite
