#include "base/error.h"
#include "ir/call_text.h"
#include "passes/passes.h"
#include "passes/regions.h"

namespace fulgurite {

Trace place(const Trace& trace, std::span<const Executor> executors,
            std::vector<Decision>* decisions) {
  Trace placed = trace;
  std::optional<CallText> printer;
  if (decisions) printer.emplace(trace);
  for (Call& call : placed.calls) {
    call.executor.clear();
    std::string text;
    if (printer) printer->append(text, call);
    for (const Executor& executor : executors) {
      Refusal refusal = executor.claims(trace, call);
      const bool taken = refusal.empty();
      if (decisions) decisions->push_back({executor.name, text, std::move(refusal)});
      if (!taken) continue;
      call.executor = executor.name;
      break;
    }
    require(!call.executor.empty(), "no executor takes {}", call.op.name());
  }
  for (const Executor& executor : executors)
    if (executor.fuses) placed = form_regions(placed, executor, decisions);
  return placed;
}

}  // namespace fulgurite
