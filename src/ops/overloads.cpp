#include "ops/overloads.h"

#include <unordered_map>

#include <ATen/core/dispatch/Dispatcher.h>

namespace fulgurite {

const std::vector<std::string>& overloads_of(const std::string& name) {
  static const auto table = [] {
    std::unordered_map<std::string, std::vector<std::string>> result;
    for (const c10::OperatorName& op : c10::Dispatcher::singleton().getAllOpNames())
      if (op.name.starts_with("aten::")) result[op.name].push_back(op.overload_name);
    return result;
  }();
  static const std::vector<std::string> none;
  const auto found = table.find(name);
  return found == table.end() ? none : found->second;
}

}  // namespace fulgurite
