// The executor that runs a call as the ATen operator it is.
#pragma once

#include "ir/executor.h"

namespace fulgurite {

// Claims everything: an operator by its kernel, a region call by call of its body.
Executor aten_executor();

}  // namespace fulgurite
