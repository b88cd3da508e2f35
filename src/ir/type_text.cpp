#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/print.h"

namespace fulgurite {
namespace {

// "f32" of float32, "bf16", "i64", "u8", "c64", "b8".
void append_dtype(std::string& out, c10::ScalarType dtype) {
  constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"bfloat", "bf"}, {"float", "f"}, {"uint", "u"}, {"int", "i"}, {"complex", "c"}};
  const std::string_view name = c10::getDtypeNames(dtype).first;
  if (name == "bool") {
    out += "b8";
    return;
  }
  for (auto [longer, shorter] : kShort) {
    if (!name.starts_with(longer)) continue;
    out.append(shorter).append(name.substr(longer.size()));
    return;
  }
  out += name;
}

}  // namespace

std::string print_type(const TensorType& type) {
  std::string out = type.device.str();
  out += ' ';
  append_dtype(out, type.dtype);
  fmt::format_to(std::back_inserter(out), "[{}]", fmt::join(type.sizes, ", "));
  if (!is_contiguous(type)) {
    fmt::format_to(std::back_inserter(out), " strides ({}{})", fmt::join(type.strides, ", "),
                   type.strides.size() == 1 ? "," : "");
  }
  if (type.requires_grad) out += " grad";
  if (type.conj) out += " conj";
  if (type.neg) out += " neg";
  return out;
}

}  // namespace fulgurite
