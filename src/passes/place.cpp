#include "base/error.h"
#include "ir/print.h"
#include "passes/passes.h"

namespace fulgurite {

Trace place(const Trace& trace, std::span<const Executor> executors,
            std::vector<Decision>* decisions) {
  Trace placed = trace;
  for (Call& call : placed.calls) {
    call.executor.clear();
    const std::string text = decisions ? print_call(trace, call) : std::string();
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
  return placed;
}

}  // namespace fulgurite
