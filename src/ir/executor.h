// Who runs a call.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ir/trace.h"

namespace fulgurite {

// Why an executor did not take a call; "" means it does.
using Refusal = std::string;

using TensorList = c10::ArrayRef<at::Tensor>;

// A tensor that a region is run on. Where it is used for the last time, it may be taken, and its
// memory written to if nobody else has it.
struct RegionInput {
  at::Tensor* tensor = nullptr;
  bool last = false;
};
using RegionInputs = c10::ArrayRef<RegionInput>;
// Where results of a region are to be written: one per result, or none at all; those undefined are
// new tensors.
using RegionTargets = c10::ArrayRef<at::Tensor>;
using RegionResults = c10::SmallVectorImpl<at::Tensor>;

// The code of a region. For any thread.
struct RegionCode {
  // Appends one tensor per result: its target, where that can be written without harm. False, with
  // nothing done, for an input that is not laid out as the trace says, or where a call would raise
  // an error: then the calls of the region run one by one.
  std::function<bool(RegionInputs inputs, RegionTargets targets, RegionResults& results)> run;
  // Whether a run may decline although its inputs are laid out as the trace says.
  bool checks_elements = false;
  // Nanoseconds of one run on these inputs into memory that is there already: the median of as many
  // as there is time for.
  std::function<double(TensorList inputs, double seconds)> time;

  // For people.
  std::string program;  // what it computes, in the terms of the executor
  std::string text;     // the source, as printed
  // The source that runs: `text`, or what replaced it.
  std::function<std::string()> used_text;
  std::function<std::string()> assembly;  // of the source that runs
  // Runs another source from now on; "": the printed one again. UserError for one that does not
  // compile.
  std::function<void(const std::string& text)> replace_text;
  int64_t bytes = 0;  // that a run reads and writes, each element once
};

using RegionCodePointer = std::shared_ptr<const RegionCode>;

// About how long some calls take, in nanoseconds of one core.
struct Quote {
  Refusal refusal;      // they cannot be run as one
  double together = 0;  // as one
  double apart = 0;     // of one call alone: with what ATen has for it
  // What they compute may be computed again where it is used: no function that takes long, nothing
  // drawn, reduced or looked up, no error of data.
  bool is_cheap = false;
};

struct Executor {
  std::string name;
  std::function<Refusal(const Trace&, const Call&)> claims;

  // Of those that run several calls as one region: `inputs` are what the calls use, `outputs` what
  // is used of them elsewhere. What they say of several calls, and the code that they have for
  // them, depends on the structure of these calls alone (ir/structure.h). Calls that it claims are
  // put together where that takes less time than running them apart. Null: it runs each call by
  // itself.
  std::function<Quote(const Trace&, std::span<const Call* const>, c10::ArrayRef<ValueId> inputs,
                      c10::ArrayRef<ValueId> outputs)>
      fuses;
  // The code of regions that were made of its calls, one each; null where the calls are to run one
  // by one. Without `fuses`, each call that it claims is a region.
  std::function<std::vector<RegionCodePointer>(const Trace&, std::span<const Call* const> regions)>
      lower;
  // Whether what it says of a call depends on the structure of the call alone, and not on what the
  // trace has it from.
  bool by_structure = true;
  std::string regions = "fusion";  // what its regions are called, before their number
  // What it makes of a parameter lasts until that changes: of no use where parameters are trained.
  bool keeps_weights = false;
};

// One decision of the placement, kept for the user to read.
struct Decision {
  std::string executor;
  std::string call;  // as printed
  Refusal refusal;   // "" where it was taken
};

}  // namespace fulgurite
