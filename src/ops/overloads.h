// The overloads of an operator.
#pragma once

#include <string>
#include <vector>

namespace fulgurite {

// Of one of torch's own, "aten::add": the names of its overloads; none for other names.
const std::vector<std::string>& overloads_of(const std::string& name);

}  // namespace fulgurite
