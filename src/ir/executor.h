// Who runs a call.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/trace.h"

namespace fulgurite {

// Why an executor did not take a call; "" means it does.
using Refusal = std::string;

// Runs a region: one new tensor per result. False, with nothing done, for an input that is not laid
// out as the trace says: then the calls of the region run one by one.
using RegionCode =
    std::function<bool(c10::ArrayRef<at::Tensor> inputs, std::vector<at::Tensor>& results)>;

struct Executor {
  std::string name;
  std::function<Refusal(const Trace&, const Call&)> claims;

  // Of those that run several calls as one region. Calls that it claims are put together as long as
  // it takes them: `inputs` are what they use, `outputs` what is used of them elsewhere. Null: it
  // runs each call by itself.
  std::function<Refusal(const Trace&, std::span<const Call>, c10::ArrayRef<ValueId> inputs,
                        c10::ArrayRef<ValueId> outputs)>
      fuses;
  // The code of a region that was made of its calls; null where the calls are to run one by one.
  std::function<RegionCode(const Trace&, const Call& region)> lower;
};

// One decision of the placement, kept for the user to read.
struct Decision {
  std::string executor;
  std::string call;  // as printed
  Refusal refusal;   // "" where it was taken
};

}  // namespace fulgurite
