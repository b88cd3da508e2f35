// The compiler on one screen: from a captured trace to a plan.
#pragma once

#include <string>
#include <vector>

#include "ir/executor.h"
#include "ir/trace.h"
#include "runtime/plan.h"

namespace fulgurite {

struct CompileOptions {
  std::vector<Executor> executors;  // empty: the default ones
  bool verify = false;              // check invariants after every pass
};

struct Compiled {
  std::vector<Trace> series;        // as captured first, as executed last
  std::vector<Decision> decisions;
  std::shared_ptr<const Plan> plan;
};

Compiled compile(Trace captured, const CompileOptions& options = {});

}  // namespace fulgurite
