#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "ir/call_text.h"
#include "ops/facts.h"
#include "passes/asked_once.h"
#include "passes/opened.h"
#include "passes/passes.h"
#include "passes/regions.h"

namespace fulgurite {
namespace {

class Placement {
 public:
  Placement(const Trace& trace, std::span<const Executor> executors,
            std::vector<Decision>* decisions)
      : trace_(trace), executors_(executors), decisions_(decisions), placed_(trace) {
    if (decisions) printer_.emplace(trace);
  }

  Trace run() {
    placed_.calls.clear();
    placed_.epilogue = -1;
    for (size_t i = 0; i < trace_.calls.size(); ++i) {
      if (static_cast<int32_t>(i) == trace_.epilogue) begin_epilogue();
      Call call = trace_.calls[i];
      call.executor.clear();
      give(std::move(call));
    }
    if (trace_.epilogue >= 0 && placed_.epilogue < 0) begin_epilogue();
    return std::move(placed_);
  }

 private:
  void begin_epilogue() { placed_.epilogue = static_cast<int32_t>(placed_.calls.size()); }

  // To the first executor that claims it, or whose are its parts.
  void give(Call call) {
    std::string text;
    if (printer_) printer_->append(text, call);
    for (const Executor& executor : executors_) {
      if (may_write(call) && give_parts(call, executor)) return;
      Refusal refusal = call.executor == executor.name ? "" : executor.claims(placed_, call);
      const bool taken = refusal.empty();
      if (decisions_) decisions_->push_back({executor.name, text, std::move(refusal)});
      if (taken) {
        call.executor = executor.name;
        if (executor.lower && !executor.fuses) call = alone(std::move(call));
        placed_.calls.push_back(std::move(call));
        return;
      }
      if (give_parts(call, executor)) return;
    }
    internal_error("no executor takes {}", call.op.name());
  }

  // A region of this call, which its executor has code for.
  Call alone(Call call) {
    Call region;
    region.op = Op::named(fmt::format("{}{}", call.executor, alone_[call.executor]++));
    region.executor = std::exchange(call.executor, "");
    region.mode = call.mode;
    region.source = call.source;
    region.module = call.module;
    std::set<ValueId> known;
    for_each_value(call.args, [&](ValueId id) {
      if (known.insert(id).second) region.args.push_back(Arg::of(id));
    });
    for_each_value(call.results, [&](ValueId id) { region.results.push_back(Arg::of(id)); });
    region.body.push_back(std::move(call));
    return region;
  }

  // A composite such as batch_norm counts as a view, though only its parts could be one.
  static bool may_write(const Call& call) {
    if (!call.op.aten) return false;
    const OpFacts& facts = facts_of(*call.op.aten);
    return facts.is_view && facts.hidden_write_flag;
  }

  bool give_parts(const Call& call, const Executor& executor) {
    if (placed_.epilogue >= 0 || !executor.fuses) return false;
    std::vector<Call> parts = opened(placed_, call, executor);
    for (Call& part : parts) give(std::move(part));
    return !parts.empty();
  }

  const Trace& trace_;
  std::span<const Executor> executors_;
  std::vector<Decision>* decisions_;
  std::optional<CallText> printer_;
  Trace placed_;
  std::map<std::string, int> alone_;  // calls by themselves, by executor
};

}  // namespace

Trace place(const Trace& trace, std::span<const Executor> given, std::vector<Decision>* decisions) {
  std::vector<Executor> executors;
  for (const Executor& executor : given) executors.push_back(asked_once(executor));
  Trace placed = Placement(trace, executors, decisions).run();
  for (const Executor& executor : executors)
    if (executor.fuses) placed = form_regions(placed, executor, decisions);
  return placed;
}

}  // namespace fulgurite
