#include "passes/fusion_fuel.h"

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace fulgurite {
namespace {

constexpr const char* kVariable = "FULGURITE_FUSION_FUEL";

std::optional<int64_t> fuel_of_environment() {
  const char* given = std::getenv(kVariable);
  if (!given || !*given) return std::nullopt;
  const std::string_view text = given;
  int64_t fuel = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fuel);
  if (error != std::errc() || end != text.data() + text.size() || fuel < 0)
    user_error(
        "{} is '{}'; expected a whole number of regions, from 0: unset it to form all that there "
        "are",
        kVariable, text);
  return fuel;
}

}  // namespace

Refusal burn_fusion_fuel() {
  static const std::optional<int64_t> fuel = fuel_of_environment();
  static std::atomic<int64_t> formed{0};
  if (!fuel) return "";
  const int64_t number = ++formed;
  if (number <= *fuel) return "";
  return fmt::format("{}={} is used up: this is region {} of the process", kVariable, *fuel,
                     number);
}

}  // namespace fulgurite
