#include "passes/regions.h"

#include <map>
#include <set>

#include "ir/rename.h"
#include "ops/facts.h"
#include "passes/filter.h"
#include "passes/fusion_fuel.h"
#include "passes/grouping.h"

namespace fulgurite {
namespace {

class Assembly {
 public:
  Assembly(const Trace& trace, const Grouping& groups, const Executor& executor)
      : trace_(trace), groups_(groups), executor_(executor), result_(without_calls(trace)) {}

  Trace run() {
    for (const Grouping::Group& group : groups_.ordered()) {
      if (group.is_region && has_fuel(group.members))
        add_region(group);
      else
        add_calls(group);
    }
    if (trace_.epilogue >= 0) {
      result_.epilogue = static_cast<int32_t>(result_.calls.size());
      result_.calls.insert(result_.calls.end(), trace_.calls.begin() + trace_.epilogue,
                           trace_.calls.end());
    }
    return std::move(result_);
  }

 private:
  bool has_fuel(const std::vector<int32_t>& members) const {
    const Refusal refusal = burn_fusion_fuel();
    if (!refusal.empty()) groups_.note_refused(members, refusal);
    return refusal.empty();
  }

  void add_calls(const Grouping::Group& group) {
    const Renaming copies = names_of(group.copies);
    for (int32_t i : group.members) {
      result_.calls.push_back(trace_.calls[i]);
      copies.apply(result_.calls.back());
    }
  }

  // New values for what copies make; those that share memory share that of the copy.
  Renaming names_of(const Grouping::Calls& copies) {
    Renaming names(trace_.values.size());
    std::map<StorageId, StorageId> storages;
    for (int32_t i : copies) {
      std::set<ValueId> given;
      for_each_value(trace_.calls[i].args, [&](ValueId id) { given.insert(id); });
      const bool is_view = groups_.is_view(i);
      for_each_result(trace_.calls[i], [&](ValueId id) {
        if (!given.insert(id).second) return;
        TensorType type = type_of(trace_, id);
        const StorageId storage = type.storage;
        const auto known = storages.find(storage);
        if (known != storages.end()) type.storage = known->second;
        if (known == storages.end() && !is_view) type.storage = kNoStorage;
        names.set(id, add_value(result_, type));
        if (!is_view) storages[storage] = result_.values.back().type.storage;
      });
    }
    return names;
  }

  // Those of its body, too.
  template <class F>
  static void for_each_result(const Call& call, F&& f) {
    for_each_value(call.results, f);
    for (const Call& inner : call.body) for_each_result(inner, f);
  }

  void add_region(const Grouping::Group& group) {
    const auto& [members, is_region, copies] = group;
    Call region;
    region.op = Op::named(executor_.regions + std::to_string(regions_++));
    region.executor = executor_.name;
    const Call& last = trace_.calls[members.back()];
    region.mode = last.mode;
    region.source = last.source;
    region.module = last.module;
    for (ValueId id : groups_.inputs_of(members)) region.args.push_back(Arg::of(id));
    for (ValueId id : groups_.outputs_of(members, copies)) region.results.push_back(Arg::of(id));
    std::vector<Call> kept;
    Renaming inside = names_of(copies);
    for (int32_t i : members) {
      Call call = trace_.calls[i];
      call.executor.clear();
      if (groups_.is_view(i) && groups_.is_kept_outside(i, members, copies)) {
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
      bool needed = draws(call);
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
  const Executor& executor_;
  Trace result_;
  int32_t regions_ = 0;
};

}  // namespace

Trace form_regions(const Trace& placed, const Executor& executor,
                   std::vector<Decision>* decisions) {
  if (placed.mode == GradMode::Grad) return placed;  // autograd is to see the calls
  const Grouping groups(placed, executor, decisions);
  return Assembly(placed, groups, executor).run();
}

}  // namespace fulgurite
