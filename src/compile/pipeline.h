// The compiler on one screen: from a captured trace to a plan.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/executor.h"
#include "ir/trace.h"
#include "runtime/plan.h"

namespace fulgurite {

// A user's own pass, run before or after the one of that name.
struct ExtraPass {
  std::string name;
  std::string anchor;  // a name of pass_names()
  bool before = false;
  std::function<Trace(const Trace&)> run;
};

struct CompileOptions {
  std::vector<Executor> executors;  // tried in this order; empty: the default ones
  std::vector<ExtraPass> extra;
  bool verify = false;       // check the invariants of a trace after every pass
  bool keep_inputs = false;  // of each region, the last ones, for a script that repeats it
};

struct Compiled {
  std::vector<Trace> series;  // as captured first, as executed last
  std::vector<Decision> decisions;
  bool is_another_program = false;  // a pass of the user's own changed what it computes, perhaps
  std::shared_ptr<const Plan> plan;
};

Compiled compile(Trace captured, const CompileOptions& options = {});

// Names of the passes as printed, in order.
std::vector<std::string> pass_names();

}  // namespace fulgurite
