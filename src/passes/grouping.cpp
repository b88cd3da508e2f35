#include "passes/grouping.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include <fmt/format.h>

#include "ir/number_argument.h"
#include "ops/catalogue.h"
#include "ops/facts.h"

namespace fulgurite {
namespace {

// A kernel of one call alone has to be compiled for what it gains: a share of the call, or so many
// nanoseconds that a few hundred runs pay for it.
constexpr double kWorthCompiling = 0.9, kMuch = 5e4, kSurely = 0.97;

bool gains(double as_one, double apart) {
  return as_one < kWorthCompiling * apart || (as_one < kSurely * apart && apart - as_one > kMuch);
}

// Of a region to which calls are added that only use the same: so many counters of an optimiser
// have one text, and are compiled once.
constexpr size_t kMostResults = 16;

bool makes_number(const Call& call) {
  return call.op.aten && (is_item(*call.op.aten) || is_arithmetic(*call.op.aten));
}

}  // namespace

Grouping::Grouping(const Trace& trace, const Executor& executor, std::vector<Decision>* decisions)
    : trace_(trace), executor_(executor), decisions_(decisions), text_(trace) {
  const auto count = static_cast<int32_t>(trace.calls.size());
  end_ = trace.epilogue >= 0 ? trace.epilogue : count;
  maker_.assign(trace.values.size(), -1);
  used_at_.resize(trace.values.size());
  is_output_.resize(trace.values.size());
  // An argument that a call gives back as it is was made before.
  std::vector<bool> is_made(trace.values.size());
  for (const Input& input : trace.inputs) is_made[input.id] = true;
  for (int32_t i = 0; i < count; ++i) {
    const Call& call = trace.calls[i];
    for_each_value(call.args, [&](ValueId id) { used_at_[id].push_back(i); });
    for_each_value(call.results, [&](ValueId id) {
      if (!is_made[id]) maker_[id] = i;
      is_made[id] = true;
    });
    is_view_.push_back(gives_view(call));
  }
  for (ValueId id : trace.outputs) is_output_[id] = true;
  run();
}

void Grouping::run() {
  unit_of_.resize(end_);
  std::iota(unit_of_.begin(), unit_of_.end(), 0);
  last_of_unit_ = unit_of_;
  copied_into_.resize(end_);
  is_cheap_.resize(end_);
  find_last_uses();
  int32_t segment = 0, last_draw = -1;
  for (int32_t i = 0; i < end_; ++i) {
    const Call& call = trace_.calls[i];
    const bool draw = only_draws(call) && call.retyped.empty();
    const bool barrier = (has_effect(call) && !draw) || !call.retyped.empty();
    if (barrier) ++segment;
    draw_before_.push_back(draw ? last_draw : -1);
    if (draw) last_draw = i;
    if (barrier) last_draw = -1;
    add(i, segment, !barrier && call.executor == executor_.name && !promotes_number(call));
    if (barrier) ++segment;
    if (units_.back().fusable) join(i);
  }
  keep_what_gains();
  repeat_cheap();
}

// A number of the trace counts as one where dtypes are promoted, which no type says: it may only be
// taken where the result says in which dtype it is computed.
bool Grouping::promotes_number(const Call& call) const {
  const OpRecord* record = call.op.aten ? find_record(*call.op.aten) : nullptr;
  if (record && record->pointwise && record->pointwise.computes_in == ComputesIn::Result)
    return false;
  bool found = false;
  for_each_value(call.args, [&](ValueId id) {
    found |= maker_[id] >= 0 && makes_number(trace_.calls[maker_[id]]);
  });
  return found;
}

void Grouping::add(int32_t i, int32_t segment, bool fusable) {
  Unit unit{.members = {i}, .segment = segment, .fusable = fusable};
  if (fusable && !is_view_[i]) {
    Quote alone = quote(unit.members);
    unit.apart = alone.apart;
    unit.as_one = alone.together;
    unit.refusal = std::move(alone.refusal);
    is_cheap_[i] = alone.is_cheap;
    unit.is_region = unit.refusal.empty() && gains(unit.as_one, unit.apart);
  }
  units_.push_back(std::move(unit));
}

// With those that make what the call uses, the latest first; then with the latest that uses the
// same.
void Grouping::join(int32_t i) {
  std::set<int32_t, std::greater<>> makers, others;
  for_each_maker(i, [&](int32_t maker) { makers.insert(maker); });
  for (int32_t maker : makers) merge(unit_of_[maker], unit_of_[i]);
  if (is_view_[i]) return;
  for_each_value(trace_.calls[i].args, [&](ValueId id) {
    for (int32_t user : used_at_[id])
      if (user < i && !is_view_[user] && units_[unit_of_[user]].fusable && have_one_shape(user, i))
        others.insert(user);
  });
  std::set<int32_t> tried;
  for (int32_t other : others) {
    const int32_t unit = unit_of_[other];
    if (!tried.insert(unit).second) continue;
    const Unit& with = units_[unit];
    if (outputs_of(with.members, with.copies).size() >= kMostResults) continue;
    if (merge(unit, unit_of_[i])) return;
  }
}

bool Grouping::have_one_shape(int32_t a, int32_t b) const {
  const auto first = [&](int32_t call) {
    for (const Arg& result : trace_.calls[call].results)
      if (!result.values.empty()) return result.values[0];
    return kNoValue;
  };
  const ValueId x = first(a), y = first(b);
  return x != kNoValue && y != kNoValue && type_of(trace_, x).sizes == type_of(trace_, y).sizes;
}

bool Grouping::merge(int32_t into, int32_t from) {
  Unit &a = units_[into], &b = units_[from];
  if (into == from || !a.fusable || !b.fusable || a.segment != b.segment) return false;
  if (a.members.size() + b.members.size() > kMostCalls) return false;
  Unit merged{.segment = a.segment, .fusable = true, .apart = a.apart + b.apart};
  std::merge(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
             std::back_inserter(merged.members));
  Refusal refusal;
  if (depends_through_others(into, from) || depends_through_others(from, into)) {
    refusal = "a call between them depends on one and is used by the other";
  } else if (computing(merged.members) > 0) {
    Quote offer = quote(merged.members);
    merged.is_region = true;
    merged.as_one = offer.together;
    refusal = std::move(offer.refusal);
    const double now = a.nanoseconds() + b.nanoseconds();
    if (refusal.empty() && holds_back(a, b, merged.members))
      refusal = "what it is computed from would be kept in memory for longer";
    if (refusal.empty() && offer.together > now * kSame)
      refusal = fmt::format("as one they take about {:.1f} us, apart {:.1f} us",
                            offer.together * 1e-3, now * 1e-3);
  }
  const bool taken = refusal.empty();
  note(b.members.front(), a.members.back(), std::move(refusal));
  if (!taken) return false;
  for (int32_t i : b.members) unit_of_[i] = into;
  for (int32_t i : merged.members) last_of_unit_[i] = merged.members.back();
  b.members.clear();
  a = std::move(merged);
  return true;
}

// Such as the gradients of a weight that is used several times, which wait for their sum.
bool Grouping::holds_back(const Unit& a, const Unit& b, const Calls& merged) const {
  const Unit& early = a.members.back() < b.members.back() ? a : b;
  bool others = false;
  for (int32_t i = early.members.back() + 1; i < merged.back(); ++i)
    others |= unit_of_[i] >= 0 && !units_[unit_of_[i]].fusable;
  return others && kept_longer(early.members, merged.back()) >
                       bytes_of(outputs_of(early.members, early.copies)) + kMostHeldBack;
}

Quote Grouping::quote(const Calls& members, const Calls& copies) const {
  const std::vector<ValueId> inputs = inputs_of(members), outputs = outputs_of(members, copies);
  c10::SmallVector<const Call*, 16> calls;
  for (int32_t i : members) calls.push_back(&trace_.calls[i]);
  return executor_.fuses(trace_, calls, inputs, outputs);
}

int64_t Grouping::computing(const Calls& members) const {
  return std::ranges::count_if(members, [&](int32_t i) { return !is_view_[i]; });
}

// One call is worth a kernel if that is faster than ATen's; views cost nothing.
void Grouping::keep_what_gains() {
  for (size_t u = 0, count = units_.size(); u < count; ++u) {
    Unit& unit = units_[u];
    if (unit.members.empty() || !unit.fusable) continue;
    if (computing(unit.members) == 1) {
      unit.is_region = unit.refusal.empty() && gains(unit.as_one, unit.apart);
      note_alone(unit);
    }
    if (!unit.is_region && unit.members.size() > 1) dissolve(unit);
  }
}

void Grouping::dissolve(Unit& unit) {
  const Unit whole = std::move(unit);
  for (int32_t i : whole.members) {
    Unit part{.members = {i}, .segment = whole.segment, .fusable = true};
    if (!is_view_[i]) part.apart = whole.apart;
    if (i == whole.members.front()) {
      units_[unit_of_[i]] = std::move(part);
    } else {
      unit_of_[i] = static_cast<int32_t>(units_.size());
      units_.push_back(std::move(part));
    }
  }
}

std::vector<Grouping::Group> Grouping::ordered() const {
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
  std::vector<Group> result;
  while (!ready.empty()) {
    const int32_t u = ready.top().second;
    ready.pop();
    result.push_back({units_[u].members, units_[u].is_region, units_[u].copies});
    for (int32_t next : after[u])
      if (before[next].erase(u) && before[next].empty())
        ready.emplace(units_[next].members.back(), next);
  }
  return result;
}

std::vector<ValueId> Grouping::inputs_of(const Calls& members) const {
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

std::vector<ValueId> Grouping::outputs_of(const Calls& members, const Calls& copies) const {
  std::vector<ValueId> outputs;
  for (int32_t i : members)
    if (!is_view_[i])
      for_each_value(trace_.calls[i].results, [&](ValueId id) {
        if (is_needed_outside(id, members, copies)) outputs.push_back(id);
      });
  return outputs;
}

bool Grouping::is_needed_outside(ValueId id, const Calls& members, const Calls& copies) const {
  const int32_t maker = maker_[id];
  if (std::ranges::binary_search(copies, maker)) return false;
  if (is_output_[id]) return true;
  const bool own = maker >= 0 && std::ranges::binary_search(members, maker);
  const auto without_copy = [&](int32_t unit) {
    if (own && (unit == unit_of_[maker] || copied_into_[maker].contains(unit))) return false;
    return unit >= 0;
  };
  return std::ranges::any_of(used_at_[id], [&](int32_t at) {
    if (at >= end_ || std::ranges::any_of(copied_into_[at], without_copy)) return true;
    if (std::ranges::binary_search(members, at))
      return is_view_[at] && is_kept_outside(at, members, copies);
    const int32_t unit = unit_of_[at];
    return without_copy(unit) || (unit >= 0 && is_view_[at] &&
                                  is_kept_outside(at, units_[unit].members, units_[unit].copies));
  });
}

bool Grouping::is_kept_outside(int32_t view, const Calls& members, const Calls& copies) const {
  bool needed = false;
  for_each_value(trace_.calls[view].results,
                 [&](ValueId id) { needed |= is_needed_outside(id, members, copies); });
  return needed;
}

std::set<int32_t> Grouping::makers_of(int32_t unit) const {
  std::set<int32_t> makers;
  for (int32_t i : units_[unit].members) {
    for_each_maker(i, [&](int32_t maker) {
      if (!copied_into_[maker].contains(unit)) makers.insert(unit_of_[maker]);
    });
    if (draw_before_[i] >= 0) makers.insert(unit_of_[draw_before_[i]]);
  }
  makers.erase(unit);
  return makers;
}

// Whether `last` uses what a third unit makes of what `first` makes.
bool Grouping::depends_through_others(int32_t first, int32_t last) const {
  std::vector<int32_t> open;
  std::set<int32_t> seen{last};
  const int32_t closed = closed_before(units_[first].members.front());
  const auto add = [&](int32_t unit) {
    if (seen.insert(unit).second && units_[unit].members.back() > closed) open.push_back(unit);
  };
  for (int32_t maker : makers_of(last))
    if (maker != first) add(maker);
  while (!open.empty()) {
    const int32_t unit = open.back();
    open.pop_back();
    for (int32_t maker : makers_of(unit)) {
      if (maker == first) return true;
      add(maker);
    }
  }
  return false;
}

// The last call before `begin` so that no unit has members on both sides of the place after it:
// what ends up to there depends on nothing behind it. -1: there is none.
int32_t Grouping::closed_before(int32_t begin) const {
  int32_t closed = -1, furthest = -1;
  for (int32_t i = 0; i < begin; ++i) {
    furthest = std::max(furthest, last_of_unit_[i]);
    if (furthest == i) closed = i;
  }
  return closed;
}

// Nothing moves across an effect: everything of a segment comes after all of the one before.
void Grouping::add_order_of_segments(std::vector<std::set<int32_t>>& before,
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

void Grouping::note_refused(const Calls& members, Refusal refusal) const {
  note(members.front(), members.back(), std::move(refusal));
}

const std::string& Grouping::text_of(int32_t call) const {
  texts_.resize(trace_.calls.size());
  if (texts_[call].empty()) text_.append(texts_[call], trace_.calls[call]);
  return texts_[call];
}

void Grouping::note(int32_t call, int32_t with, Refusal refusal) const {
  if (!decisions_) return;
  std::string line = text_of(call);
  if (with != call) line += "  with  " + text_of(with);
  decisions_->push_back({executor_.name, std::move(line), std::move(refusal)});
}

void Grouping::note_alone(const Unit& unit) const {
  if (!decisions_ || unit.is_region) return;
  const auto call = std::ranges::find_if(unit.members, [&](int32_t i) { return !is_view_[i]; });
  Refusal why = unit.refusal;
  if (why.empty())
    why = fmt::format("alone it gains nothing: it takes about {:.1f} us, with ATen {:.1f} us",
                      unit.as_one * 1e-3, unit.apart * 1e-3);
  decisions_->push_back({executor_.name, text_of(*call), std::move(why)});
}

}  // namespace fulgurite
