// Who runs a call.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/trace.h"

namespace fulgurite {

// Why an executor did not take a call; "" means it does.
using Refusal = std::string;

struct Executor {
  std::string name;
  std::function<Refusal(const Trace&, const Call&)> claims;
};

// One decision of the placement, kept for the user to read.
struct Decision {
  std::string executor;
  std::string call;  // as printed
  Refusal refusal;   // "" where it was taken
};

}  // namespace fulgurite
