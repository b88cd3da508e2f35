#include "codegen/loops/cpu_access.h"

#include <fmt/format.h>

#include "codegen/loops/cpu_types.h"

namespace fulgurite {

std::string CpuAccesses::pointer(size_t i) const {
  return is_store(i) ? fmt::format("y{}", i - first_store()) : fmt::format("x{}", i);
}

std::string CpuAccesses::pointer_type(size_t i) const {
  return fmt::format("{}{}*", is_store(i) ? "" : "const ", element_type((*this)[i].dtype));
}

std::string CpuAccesses::stride_text(size_t i, int32_t dimension) const {
  return fmt::format("strides[{}]", i * program_.sizes.size() + static_cast<size_t>(dimension));
}

std::string CpuAccesses::parameters() const {
  std::string out;
  for (size_t i = 0; i < count(); ++i) {
    out += fmt::format("{} {}, ", pointer_type(i), pointer(i));
    if (is_strided(i)) out += fmt::format("long s{}, ", i);
  }
  return out;
}

std::string CpuAccesses::parameters_of_loads(std::string_view before) const {
  std::string out;
  for (size_t i = 0; i < first_store(); ++i) {
    out += fmt::format("{} {}{}, ", pointer_type(i), before, pointer(i));
    if (is_strided(i)) out += fmt::format("long {}s{}, ", before, i);
  }
  return out;
}

std::string CpuAccesses::arguments_of_loads(std::string_view before) const {
  std::string out;
  for (size_t i = 0; i < first_store(); ++i) {
    out += fmt::format("{}{}, ", before, pointer(i));
    if (is_strided(i)) out += fmt::format("{}s{}, ", before, i);
  }
  return out;
}

std::string CpuAccesses::from_arguments() const {
  std::string out = "  const long *sizes = args->sizes, *strides = args->strides;\n";
  if (!program_.statements.given.empty()) out += "  const long* given = args->given;\n";
  if (!program_.statements.checks.empty()) out += "  long* failed = args->failed;\n";
  for (size_t i = 0; i < count(); ++i) {
    out += fmt::format("  {0} {1} = ({0})args->pointers[{2}];\n", pointer_type(i), pointer(i), i);
    if (is_strided(i))
      out += fmt::format("  const long s{} = {};\n", i, stride_text(i, program_.lane_dimension()));
  }
  return out;
}

}  // namespace fulgurite
