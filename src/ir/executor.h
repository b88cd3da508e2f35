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

// The code of a region. For any thread.
struct RegionCode {
  // One new tensor per result. False, with nothing done, for an input that is not laid out as the
  // trace says: then the calls of the region run one by one.
  std::function<bool(TensorList inputs, std::vector<at::Tensor>& results)> run;
  // Nanoseconds of one run on these inputs into memory that is there already: the median of as many
  // as there is time for.
  std::function<double(TensorList inputs, double seconds)> time;

  // For people.
  std::string program;  // what it computes, in the terms of the executor
  std::string text;     // the source
  std::function<std::string()> assembly;
  int64_t bytes = 0;  // that a run reads and writes, each element once
};

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
  std::function<std::shared_ptr<const RegionCode>(const Trace&, const Call& region)> lower;
};

// One decision of the placement, kept for the user to read.
struct Decision {
  std::string executor;
  std::string call;  // as printed
  Refusal refusal;   // "" where it was taken
};

}  // namespace fulgurite
