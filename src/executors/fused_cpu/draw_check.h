// Whether ATen draws as our loops do.
#pragma once

#include <string>

namespace fulgurite {

// Why it does not in this process, tried once; "" if it does. Other builds of torch draw by other
// libraries, and round another way where they are told to use a lesser processor.
const std::string& refuse_draws();

}  // namespace fulgurite
