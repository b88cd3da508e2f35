// What is cheap is computed again in each region that uses it, rather than written by one and read
// by the others.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "ops/facts.h"
#include "passes/grouping.h"

namespace fulgurite {
namespace {

constexpr size_t kMostRepeated = 8, kMostUsers = 8;

Grouping::Calls united(const Grouping::Calls& a, const Grouping::Calls& b) {
  Grouping::Calls both;
  std::ranges::set_union(a, b, std::back_inserter(both));
  return both;
}

}  // namespace

// By all that use it, so that nobody writes it; else by those to which it is nearer than its
// result. Later calls first: what a call is made of goes with it.
void Grouping::repeat_cheap() {
  for (int32_t i = end_; i-- > 0;) {
    if (unit_of_[i] < 0 || is_view_[i] || !is_repeatable(i)) continue;
    Repeat all{.unit = unit_of_[i], .calls = {i}};
    const bool known = find_users(trace_.calls[i].results[0].values[0], all);
    if (all.users.empty() || all.users.size() > kMostUsers) continue;
    Repeat whole = all;
    whole.calls = with_makers(all);
    if (known && (try_repeat(whole, i, true) || try_repeat(all, i, true))) continue;
    for (int32_t user : std::set(all.users)) {
      if (unit_of_[i] < 0) break;
      whole.users = all.users = {user};
      if (!try_repeat(whole, i, false)) try_repeat(all, i, false);
    }
  }
}

bool Grouping::is_repeatable(int32_t i) const {
  const Call& call = trace_.calls[i];
  if (!units_[unit_of_[i]].fusable || call.executor != executor_.name || has_effect(call))
    return false;
  if (call.results.size() != 1 || call.results[0].values.size() != 1) return false;
  const ValueId result = call.results[0].values[0];
  if (result == kNoValue || maker_[result] != i) return false;
  return is_view_[i] || is_cheap_[i];
}

// Adds the units that use a value, and the views in between. Whether they are all who do.
bool Grouping::find_users(ValueId id, Repeat& repeat) const {
  bool all = !is_output_[id];
  for (int32_t at : used_at_[id]) {
    if (at >= end_) {
      all = false;
      continue;
    }
    std::set<int32_t> units = copied_into_[at];
    if (unit_of_[at] >= 0) units.insert(unit_of_[at]);
    for (int32_t unit : units) {
      if (unit == repeat.unit || copied_into_[maker_[id]].contains(unit)) continue;
      const bool may = units_[unit].fusable &&
                       units_[unit].segment == units_[repeat.unit].segment &&
                       computing(units_[unit].members) > 0;
      if (may) repeat.users.insert(unit);
      all &= may;
    }
    if (!is_view_[at] || unit_of_[at] != repeat.unit) continue;
    if (is_repeatable(at)) {
      repeat.calls = united(repeat.calls, {at});
      all &= find_users(trace_.calls[at].results[0].values[0], repeat);
    } else {
      all = false;
    }
  }
  return all;
}

// With all that they are made of in their unit, as far as that is cheap.
Grouping::Calls Grouping::with_makers(const Repeat& repeat) const {
  Calls calls = repeat.calls;
  for (size_t k = 0; k < calls.size() && calls.size() < kMostRepeated; ++k)
    for_each_maker(calls[k], [&](int32_t maker) {
      const bool known = std::ranges::find(calls, maker) != calls.end();
      if (!known && unit_of_[maker] == repeat.unit && is_repeatable(maker)) calls.push_back(maker);
    });
  std::ranges::sort(calls);
  return calls;
}

// Whether less is read than what is no longer read, and by all of them no longer written.
bool Grouping::moves_less(const Repeat& repeat, int32_t call, bool by_all) const {
  const int64_t result = bytes_of(trace_.calls[call].results[0].values);
  const std::vector<ValueId> inputs = inputs_of(repeat.calls);
  int64_t saved = by_all ? result : 0;
  for (int32_t user : repeat.users) {
    std::vector<ValueId> more;
    const std::vector<ValueId> known = inputs_of(units_[user].members);
    std::ranges::copy_if(inputs, std::back_inserter(more),
                         [&](ValueId id) { return std::ranges::find(known, id) == known.end(); });
    saved += result - bytes_of(more);
  }
  return saved > 0;
}

bool Grouping::try_repeat(const Repeat& repeat, int32_t call, bool by_all) {
  if (!moves_less(repeat, call, by_all)) return false;
  std::set<int32_t> units = repeat.users;
  units.insert(repeat.unit);
  std::map<int32_t, Unit> before;
  for (int32_t unit : units) before[unit] = units_[unit];
  std::vector<std::set<int32_t>> copied_before;
  for (int32_t i : repeat.calls) copied_before.push_back(copied_into_[i]);
  const Unit& unit = units_[repeat.unit];
  const auto written = outputs_of(unit.members, unit.copies);
  int32_t last = 0;
  for (int32_t user : repeat.users) last = std::max(last, units_[user].members.back());
  const int64_t longer = kept_longer(repeat.calls, last);
  apply(repeat);
  const auto still_written = outputs_of(unit.members, unit.copies);
  if (unit.members == before[repeat.unit].members && still_written == written)
    units.erase(repeat.unit);
  double now = 0;
  for (int32_t u : units) now += before[u].nanoseconds();
  Quote offer = price(units);
  if (offer.refusal.empty() && longer > bytes_of(written) - bytes_of(still_written))
    offer.refusal = "what it is computed from would be kept in memory for longer";
  if (offer.refusal.empty() && offer.together * kSame > now)
    offer.refusal = fmt::format("computed again it takes about {:.1f} us, kept in memory {:.1f} us",
                                offer.together * 1e-3, now * 1e-3);
  const bool taken = offer.refusal.empty();
  note_repeat(call, *repeat.users.begin(), std::move(offer.refusal));
  if (taken) return true;
  for (auto& [u, was] : before) units_[u] = std::move(was);
  for (size_t k = 0; k < repeat.calls.size(); ++k) {
    copied_into_[repeat.calls[k]] = std::move(copied_before[k]);
    unit_of_[repeat.calls[k]] = repeat.unit;
  }
  return false;
}

void Grouping::apply(const Repeat& repeat) {
  for (int32_t user : repeat.users) {
    Unit& unit = units_[user];
    for (int32_t i : repeat.calls)
      if (!std::ranges::binary_search(unit.members, i)) {
        unit.copies = united(unit.copies, {i});
        copied_into_[i].insert(user);
      }
    unit.members = united(unit.members, repeat.calls);
  }
  drop_unneeded(repeat.calls, units_[repeat.unit]);
}

// Those of the calls whose results nobody uses any more.
void Grouping::drop_unneeded(const Calls& calls, Unit& unit) {
  for (size_t k = calls.size(); k-- > 0;) {
    const ValueId result = trace_.calls[calls[k]].results[0].values[0];
    const bool used = std::ranges::any_of(
        used_at_[result], [&](int32_t at) { return std::ranges::binary_search(unit.members, at); });
    if (used || is_needed_outside(result, unit.members, unit.copies)) continue;
    std::erase(unit.members, calls[k]);
    unit_of_[calls[k]] = -1;
  }
}

// Of these units as regions, as they now are.
Quote Grouping::price(const std::set<int32_t>& units) {
  Quote all;
  for (int32_t u : units) {
    Unit& unit = units_[u];
    unit.is_region = false;
    unit.apart = 0;  // of calls without results, or of views
    if (computing(unit.members) == 0) continue;
    if (unit.members.size() > kMostCalls) all.refusal = "too many calls";
    if (uses_dropped(unit)) all.refusal = "a view of what nobody writes";
    Quote offer = quote(unit.members, unit.copies);
    if (!offer.refusal.empty()) all.refusal = std::move(offer.refusal);
    unit.is_region = true;
    unit.as_one = offer.together;
    all.together += offer.together;
  }
  return all;
}

// Others make a view again, from what it is a view of.
bool Grouping::uses_dropped(const Unit& unit) const {
  std::vector<ValueId> open = inputs_of(unit.members);
  while (!open.empty()) {
    const int32_t maker = maker_[open.back()];
    open.pop_back();
    if (maker < 0 || maker >= end_) continue;
    if (unit_of_[maker] < 0) return true;
    if (is_view_[maker])
      for_each_value(trace_.calls[maker].args, [&](ValueId id) { open.push_back(id); });
  }
  return false;
}

int64_t Grouping::bytes_of(c10::ArrayRef<ValueId> ids) const {
  int64_t bytes = 0;
  for (ValueId id : ids) {
    const TensorType& type = type_of(trace_, id);
    bytes += numel(type) * static_cast<int64_t>(c10::elementSize(type.dtype));
  }
  return bytes;
}

// Bytes of memory that the calls use and nobody else needs as late as those who are to compute
// them.
int64_t Grouping::kept_longer(const Calls& calls, int32_t last) const {
  std::set<StorageId> seen;
  int64_t bytes = 0;
  for (ValueId id : inputs_of(calls)) {
    const TensorType& type = type_of(trace_, id);
    if (last_use_.at(type.storage) < last && seen.insert(type.storage).second) bytes += type.nbytes;
  }
  return bytes;
}

// Of each storage, the last call that uses it; the end for those of inputs and outputs.
void Grouping::find_last_uses() {
  last_use_.assign(trace_.storages, -1);
  const auto use = [&](ValueId id, int32_t at) {
    const StorageId storage = type_of(trace_, id).storage;
    if (storage != kNoStorage) last_use_.at(storage) = std::max(last_use_.at(storage), at);
  };
  const auto count = static_cast<int32_t>(trace_.calls.size());
  for (int32_t i = 0; i < count; ++i)
    for_each_value(trace_.calls[i].args, [&](ValueId id) { use(id, i); });
  for (const Input& input : trace_.inputs) use(input.id, count);
  for (ValueId id : trace_.outputs) use(id, count);
}

void Grouping::note_repeat(int32_t call, int32_t user, Refusal refusal) const {
  if (!decisions_) return;
  std::string line = text_of(call) + "  computed again with  ";
  const Calls& members = units_[user].members;
  const auto first =
      std::ranges::find_if(members, [&](int32_t i) { return unit_of_[i] == user && !is_view_[i]; });
  line += text_of(first == members.end() ? members.back() : *first);
  decisions_->push_back({executor_.name, std::move(line), std::move(refusal)});
}

}  // namespace fulgurite
