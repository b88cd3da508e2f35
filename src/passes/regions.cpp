#include "passes/regions.h"

#include <algorithm>
#include <queue>
#include <set>

#include "ir/call_text.h"
#include "ir/number_argument.h"
#include "ir/rename.h"
#include "ops/facts.h"
#include "passes/filter.h"

namespace fulgurite {
namespace {

// Every attempt to add a call looks at the whole region.
constexpr size_t kMostCalls = 64;

bool is_view(const Call& call) { return call.op.aten && facts_of(*call.op.aten).is_view; }

// Numbers of the trace stay with who reads them out of their tensors.
bool takes_number_of_trace(const Call& call) {
  if (!call.op.aten) return false;
  const auto& arguments = call.op.aten->schema().arguments();
  for (size_t i = 0; i < call.args.size(); ++i)
    if (call.args[i].kind != Arg::Kind::Constant &&
        (takes_number(arguments[i]) || takes_numbers(arguments[i])))
      return true;
  return false;
}

// Calls that run as one, or one call that runs by itself.
struct Unit {
  std::vector<int32_t> members;  // in order; empty once it is part of another
  int32_t segment = 0;           // between two calls that nothing moves across
  bool fusable = false;
};

class Grouping {
 public:
  Grouping(const Trace& trace, const Executor& executor, std::vector<Decision>* decisions)
      : trace_(trace), executor_(executor), decisions_(decisions), text_(trace) {
    const auto count = static_cast<int32_t>(trace.calls.size());
    end_ = trace.epilogue >= 0 ? trace.epilogue : count;
    maker_.assign(trace.values.size(), -1);
    used_at_.resize(trace.values.size());
    is_output_.resize(trace.values.size());
    for (int32_t i = 0; i < count; ++i) {
      for_each_value(trace.calls[i].args, [&](ValueId id) { used_at_[id].push_back(i); });
      for_each_value(trace.calls[i].results, [&](ValueId id) {
        if (maker_[id] < 0) maker_[id] = i;  // a call that writes gives what it writes
      });
    }
    for (ValueId id : trace.outputs) is_output_[id] = true;
  }

  void run() {
    int32_t segment = 0;
    for (int32_t i = 0; i < end_; ++i) {
      const Call& call = trace_.calls[i];
      const bool barrier = has_effect(call) || !call.retyped.empty();
      if (barrier) ++segment;
      const bool fusable =
          !barrier && call.executor == executor_.name && !takes_number_of_trace(call);
      units_.push_back({{i}, segment, fusable});
      unit_of_.push_back(i);
      if (barrier) ++segment;
      if (units_.back().fusable) join(i);
    }
    drop_small();
  }

  // Each unit once, every call after those that it depends on; the order is the program's where it
  // can be.
  std::vector<std::vector<int32_t>> ordered() const {
    using Entry = std::pair<int32_t, int32_t>;  // the last member's place, the unit
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    std::vector<std::set<int32_t>> before(units_.size());
    std::vector<std::vector<int32_t>> after(units_.size());
    for (size_t u = 0; u < units_.size(); ++u) {
      before[u] = makers_of(static_cast<int32_t>(u));
      for (int32_t p : before[u]) after[p].push_back(static_cast<int32_t>(u));
    }
    add_order_of_segments(before, after);
    for (size_t u = 0; u < units_.size(); ++u)
      if (!units_[u].members.empty() && before[u].empty())
        ready.emplace(units_[u].members.back(), static_cast<int32_t>(u));
    std::vector<std::vector<int32_t>> result;
    while (!ready.empty()) {
      const int32_t u = ready.top().second;
      ready.pop();
      result.push_back(units_[u].members);
      for (int32_t next : after[u])
        if (before[next].erase(u) && before[next].empty())
          ready.emplace(units_[next].members.back(), next);
    }
    return result;
  }

  // What the calls use of others, and what others use of them. A view that others use is made again
  // for them, so that they use what it is a view of.
  std::vector<ValueId> inputs_of(const std::vector<int32_t>& members) const {
    std::vector<ValueId> inputs;
    std::set<ValueId> seen;
    for (int32_t i : members)
      for_each_value(trace_.calls[i].results, [&](ValueId id) { seen.insert(id); });
    for (int32_t i : members)
      for_each_value(trace_.calls[i].args, [&](ValueId id) {
        if (seen.insert(id).second) inputs.push_back(id);
      });
    return inputs;
  }
  std::vector<ValueId> outputs_of(const std::vector<int32_t>& members) const {
    std::vector<ValueId> outputs;
    for (int32_t i : members)
      if (!is_view(trace_.calls[i]))
        for_each_value(trace_.calls[i].results, [&](ValueId id) {
          if (is_needed_outside(id, members)) outputs.push_back(id);
        });
    return outputs;
  }
  bool is_needed_outside(ValueId id, const std::vector<int32_t>& members) const {
    if (is_output_[id]) return true;
    return std::any_of(used_at_[id].begin(), used_at_[id].end(), [&](int32_t at) {
      if (!std::binary_search(members.begin(), members.end(), at)) return true;
      return is_view(trace_.calls[at]) && is_kept_outside(at, members);
    });
  }
  bool is_kept_outside(int32_t view, const std::vector<int32_t>& members) const {
    bool needed = false;
    for_each_value(trace_.calls[view].results,
                   [&](ValueId id) { needed |= is_needed_outside(id, members); });
    return needed;
  }

 private:
  // Calls f(call) for the calls that make what call `i` uses.
  template <class F>
  void for_each_maker(int32_t i, F&& f) const {
    for_each_value(trace_.calls[i].args, [&](ValueId id) {
      if (maker_[id] >= 0 && maker_[id] < end_) f(maker_[id]);
    });
  }

  // With those that make what the call uses, the latest first.
  void join(int32_t i) {
    std::set<int32_t, std::greater<>> makers;
    for_each_maker(i, [&](int32_t maker) { makers.insert(maker); });
    for (int32_t maker : makers) merge(unit_of_[maker], unit_of_[i]);
  }

  void merge(int32_t into, int32_t from) {
    Unit &a = units_[into], &b = units_[from];
    if (into == from || !a.fusable || !b.fusable || a.segment != b.segment) return;
    if (a.members.size() + b.members.size() > kMostCalls) return;
    std::vector<int32_t> members;
    std::merge(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
               std::back_inserter(members));
    Refusal refusal = depends_through_others(into, from) || depends_through_others(from, into)
                          ? "a call between them depends on one and is used by the other"
                          : refuse(members);
    note(b.members.front(), a.members.back(), refusal);
    if (!refusal.empty()) return;
    for (int32_t i : b.members) unit_of_[i] = into;
    a.members = std::move(members);
    b.members.clear();
  }

  Refusal refuse(const std::vector<int32_t>& members) const {
    std::vector<Call> calls;
    for (int32_t i : members) calls.push_back(trace_.calls[i]);
    return executor_.fuses(trace_, calls, inputs_of(members), outputs_of(members));
  }

  std::set<int32_t> makers_of(int32_t unit) const {
    std::set<int32_t> makers;
    for (int32_t i : units_[unit].members)
      for_each_maker(i, [&](int32_t maker) { makers.insert(unit_of_[maker]); });
    makers.erase(unit);
    return makers;
  }

  // Whether `last` uses what a third unit makes of what `first` makes.
  bool depends_through_others(int32_t first, int32_t last) const {
    std::vector<int32_t> open;
    std::set<int32_t> seen{last};
    const auto add_makers = [&](int32_t unit) {
      for (int32_t maker : makers_of(unit))
        if (seen.insert(maker).second) open.push_back(maker);
    };
    for (int32_t maker : makers_of(last))
      if (maker != first && seen.insert(maker).second) open.push_back(maker);
    const int32_t begin = units_[first].members.front();
    while (!open.empty()) {
      const int32_t unit = open.back();
      open.pop_back();
      if (unit == first) return true;
      if (units_[unit].members.back() > begin) add_makers(unit);
    }
    return false;
  }

  // A view costs nothing, so that nothing is saved by a region of views and one other call.
  void drop_small() {
    for (size_t u = 0; u < units_.size(); ++u) {
      Unit& unit = units_[u];
      if (unit.members.size() < 2) continue;
      const auto computes = [&](int32_t i) { return !is_view(trace_.calls[i]); };
      if (std::count_if(unit.members.begin(), unit.members.end(), computes) < 2) dissolve(unit);
    }
  }

  void dissolve(Unit& unit) {
    const std::vector<int32_t> members = std::move(unit.members);
    unit.members = {members.front()};
    for (size_t k = 1; k < members.size(); ++k) {
      unit_of_[members[k]] = static_cast<int32_t>(units_.size());
      units_.push_back({{members[k]}, units_[unit_of_[members[0]]].segment, false});
    }
  }

  // Nothing moves across an effect: everything of a segment comes after all of the one before.
  void add_order_of_segments(std::vector<std::set<int32_t>>& before,
                             std::vector<std::vector<int32_t>>& after) const {
    std::vector<std::vector<int32_t>> segments;
    for (size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].members.empty()) continue;
      const auto at = static_cast<size_t>(units_[u].segment);
      if (segments.size() <= at) segments.resize(at + 1);
      segments[at].push_back(static_cast<int32_t>(u));
    }
    std::erase_if(segments, [](const auto& units) { return units.empty(); });
    for (size_t s = 1; s < segments.size(); ++s)
      for (int32_t later : segments[s])
        for (int32_t earlier : segments[s - 1])
          if (before[later].insert(earlier).second) after[earlier].push_back(later);
  }

  void note(int32_t call, int32_t with, const Refusal& refusal) {
    if (!decisions_) return;
    std::string line;
    text_.append(line, trace_.calls[call]);
    line += "  with  ";
    text_.append(line, trace_.calls[with]);
    decisions_->push_back({executor_.name, std::move(line), refusal});
  }

  const Trace& trace_;
  const Executor& executor_;
  std::vector<Decision>* decisions_;
  CallText text_;
  int32_t end_ = 0;                            // of the calls before the epilogue
  std::vector<int32_t> maker_;                 // of a value: a call, or -1
  std::vector<std::vector<int32_t>> used_at_;  // of a value: calls
  std::vector<bool> is_output_;
  std::vector<Unit> units_;
  std::vector<int32_t> unit_of_;  // of a call
};

class Assembly {
 public:
  Assembly(const Trace& trace, const Grouping& groups, const std::string& executor)
      : trace_(trace), groups_(groups), executor_(executor), result_(without_calls(trace)) {}

  Trace run() {
    for (const std::vector<int32_t>& members : groups_.ordered()) {
      if (members.size() == 1)
        result_.calls.push_back(trace_.calls[members[0]]);
      else
        add_region(members);
    }
    if (trace_.epilogue >= 0) {
      result_.epilogue = static_cast<int32_t>(result_.calls.size());
      result_.calls.insert(result_.calls.end(), trace_.calls.begin() + trace_.epilogue,
                           trace_.calls.end());
    }
    return std::move(result_);
  }

 private:
  void add_region(const std::vector<int32_t>& members) {
    Call region;
    region.op = Op::named("fusion" + std::to_string(regions_++));
    region.executor = executor_;
    const Call& last = trace_.calls[members.back()];
    region.mode = last.mode;
    region.source = last.source;
    region.module = last.module;
    for (ValueId id : groups_.inputs_of(members)) region.args.push_back(Arg::of(id));
    for (ValueId id : groups_.outputs_of(members)) region.results.push_back(Arg::of(id));
    std::vector<Call> kept;
    Renaming inside(trace_.values.size());
    for (int32_t i : members) {
      Call call = trace_.calls[i];
      call.executor.clear();
      if (is_view(call) && groups_.is_kept_outside(i, members)) {
        kept.push_back(trace_.calls[i]);
        kept.back().body.clear();  // its values are those of the call in the region
        for_each_value(call.results, [&](ValueId id) {
          inside.set(id, add_value(result_, type_of(trace_, id)));
        });
      }
      inside.apply(call);
      region.body.push_back(std::move(call));
    }
    drop_unused(region);
    result_.calls.push_back(std::move(region));
    result_.calls.insert(result_.calls.end(), kept.begin(), kept.end());
  }

  // Views that are used outside only.
  static void drop_unused(Call& region) {
    std::set<ValueId> used;
    for_each_value(region.results, [&](ValueId id) { used.insert(id); });
    std::vector<Call> kept;
    for (size_t i = region.body.size(); i-- > 0;) {
      Call& call = region.body[i];
      bool needed = false;
      for_each_value(call.results, [&](ValueId id) { needed |= used.contains(id); });
      if (!needed) continue;
      for_each_value(call.args, [&](ValueId id) { used.insert(id); });
      kept.push_back(std::move(call));
    }
    region.body.assign(std::make_move_iterator(kept.rbegin()),
                       std::make_move_iterator(kept.rend()));
  }

  const Trace& trace_;
  const Grouping& groups_;
  const std::string& executor_;
  Trace result_;
  int32_t regions_ = 0;
};

}  // namespace

Trace form_regions(const Trace& placed, const Executor& executor,
                   std::vector<Decision>* decisions) {
  if (placed.mode == GradMode::Grad) return placed;  // autograd is to see the calls
  Grouping groups(placed, executor, decisions);
  groups.run();
  return Assembly(placed, groups, executor.name).run();
}

}  // namespace fulgurite
