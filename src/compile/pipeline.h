// The compiler on one screen: from a captured trace to a plan.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/executor.h"
#include "ir/trace.h"
#include "runtime/differentiated.h"
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
  std::string name;          // of the program, as profilers show its runs
  // Of a program whose results are differentiated: by calls of its own, for gradients that come in
  // for these outputs (empty: for a single number alone if there is one among them, else for all).
  bool differentiate = true;
  std::vector<bool> gradients;
  double memory_budget = 1;  // see Recomputation
  AutocastState autocast;    // that the backward pass is expected to run under
};

struct Compiled {
  std::vector<Trace> series;  // as captured first, as executed last
  std::vector<Decision> decisions;
  bool is_another_program = false;   // a pass of the user's own changed what it computes, perhaps
  std::shared_ptr<const Plan> plan;  // of the last trace; null where there is a backward one

  // Of a program whose results are differentiated.
  std::vector<Trace> backward;  // the series of the backward pass, as split off first
  std::shared_ptr<const Differentiated> differentiated;
  std::vector<Trace> finish;  // what torch's autograd sees after the forward pass; none: nothing
  std::vector<SavedValue> saved;  // for it, with reasons: its inputs after the gradients
  int64_t bytes_needed = 0;       // see Halves
  std::string undifferentiated;   // why there is none: torch's own autograd sees each call

  // As Plan::run.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, bool& undone) const;
  int64_t typical_nanoseconds() const;
};

Compiled compile(Trace captured, const CompileOptions& options = {});

// Names of the passes as printed, in order.
std::vector<std::string> pass_names();

}  // namespace fulgurite
