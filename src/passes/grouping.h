// Which calls of a trace are run as one region.
#pragma once

#include <set>
#include <vector>

#include "ir/call_text.h"
#include "ir/executor.h"

namespace fulgurite {

// Goes through the calls that `executor` has been given and puts each together with those that make
// what it uses, then with those that use the same, where the executor says that this takes less
// time. What is cheap is then computed again in the regions that use it, where that takes less time
// than to read what another one has written. Keeps a reference to the trace.
class Grouping {
 public:
  // What was tried is added to `decisions`, unless that is null.
  Grouping(const Trace& trace, const Executor& executor, std::vector<Decision>* decisions);

  using Calls = std::vector<int32_t>;  // in order

  // One region, or one call that runs by itself.
  struct Group {
    Calls members;
    bool is_region = false;
    Calls copies{};  // those of the members whose results are for this group alone
  };
  // Every group comes after those that it depends on; the order is the program's where it can be.
  std::vector<Group> ordered() const;

  // What the calls use of others, and what others use of them. A view that others use is made again
  // for them, so that they use what it is a view of.
  std::vector<ValueId> inputs_of(const Calls& members) const;
  std::vector<ValueId> outputs_of(const Calls& members, const Calls& copies) const;

  bool is_view(int32_t call) const { return is_view_[call]; }
  bool is_kept_outside(int32_t view, const Calls& members, const Calls& copies) const;

  // Adds to the decisions why calls that would be a region run apart.
  void note_refused(const Calls& members, Refusal refusal) const;

 private:
  // Of a region: every attempt to add a call looks at all of it.
  static constexpr size_t kMostCalls = 64;
  // Estimates that differ by less are the same.
  static constexpr double kSame = 1.01;
  // Bytes that are not freed while other calls run, for the sake of one region.
  static constexpr int64_t kMostHeldBack = int64_t{1} << 20;

  // Calls that run as one, or one call.
  struct Unit {
    Calls members{}, copies{};  // none once it is part of another
    int32_t segment = 0;        // between two calls that nothing moves across
    bool fusable = false;
    bool is_region = false;
    double as_one = 0, apart = 0;  // how long it takes
    Refusal refusal{};             // of one call: why it is no region by itself
    double nanoseconds() const { return is_region ? as_one : apart; }
  };

  void run();
  void add(int32_t call, int32_t segment, bool fusable);
  bool promotes_number(const Call& call) const;
  void join(int32_t call);
  bool merge(int32_t into, int32_t from);
  bool holds_back(const Unit& a, const Unit& b, const Calls& merged) const;
  Quote quote(const Calls& members, const Calls& copies = {}) const;
  void keep_what_gains();
  void dissolve(Unit& unit);
  bool is_needed_outside(ValueId id, const Calls& members, const Calls& copies) const;
  bool have_one_shape(int32_t a, int32_t b) const;
  int64_t computing(const Calls& members) const;  // how many are no views
  bool depends_through_others(int32_t first, int32_t last) const;
  int32_t closed_before(int32_t begin) const;
  // Units that a unit comes after: they make what it uses, or draw before it.
  std::set<int32_t> makers_of(int32_t unit) const;
  void add_order_of_segments(std::vector<std::set<int32_t>>& before,
                             std::vector<std::vector<int32_t>>& after) const;

  // What may be computed again: `calls` of one unit, for others that use them. See repeats.cpp.
  struct Repeat {
    int32_t unit = 0;
    Calls calls{};
    std::set<int32_t> users{};  // units
  };
  void repeat_cheap();
  bool is_repeatable(int32_t call) const;
  bool find_users(ValueId id, Repeat& repeat) const;
  Calls with_makers(const Repeat& repeat) const;
  bool moves_less(const Repeat& repeat, int32_t call, bool by_all) const;
  bool try_repeat(const Repeat& repeat, int32_t call, bool by_all);
  void apply(const Repeat& repeat);
  void drop_unneeded(const Calls& calls, Unit& unit);
  Quote price(const std::set<int32_t>& units);
  bool uses_dropped(const Unit& unit) const;
  int64_t bytes_of(c10::ArrayRef<ValueId> ids) const;
  // Bytes that calls use, and that nobody else would between them and `last`.
  int64_t kept_longer(const Calls& calls, int32_t last) const;
  void find_last_uses();
  void note_repeat(int32_t call, int32_t user, Refusal refusal) const;

  const std::string& text_of(int32_t call) const;
  void note(int32_t call, int32_t with, Refusal refusal) const;
  void note_alone(const Unit& unit) const;

  // Calls f(call) for the calls that make what a call uses.
  template <class F>
  void for_each_maker(int32_t call, F&& f) const {
    for_each_value(trace_.calls[call].args, [&](ValueId id) {
      if (maker_[id] >= 0 && maker_[id] < end_) f(maker_[id]);
    });
  }

  const Trace& trace_;
  const Executor& executor_;
  std::vector<Decision>* decisions_;
  mutable CallText text_;                      // keeps the spellings that it has looked up
  mutable std::vector<std::string> texts_;     // of calls, once asked for
  int32_t end_ = 0;                            // of the calls before the epilogue
  std::vector<int32_t> maker_;                 // of a value: a call, or -1
  std::vector<std::vector<int32_t>> used_at_;  // of a value: calls
  std::vector<bool> is_output_;                // of a value
  std::vector<bool> is_view_;                  // of a call
  std::vector<int32_t> draw_before_;           // of a call that draws: the one before, or -1
  std::vector<Unit> units_;
  std::vector<int32_t> unit_of_;       // of a call; -1 once others compute it for themselves
  std::vector<int32_t> last_of_unit_;  // of a call: the last member of its unit, while units grow
  std::vector<int32_t> last_use_;      // of a storage
  std::vector<bool> is_cheap_;         // of a call
  std::vector<std::set<int32_t>> copied_into_;  // of a call: units
};

}  // namespace fulgurite
