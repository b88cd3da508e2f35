#include "torch/memory_overlap.h"

#include <algorithm>
#include <map>
#include <vector>

namespace fulgurite {
namespace {

// A step of so many bytes, taken `lowest` to `highest` times.
struct Steps {
  int64_t bytes = 0, lowest = 0, highest = 0;
};

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// Whether distance = sum of bytes * times for some numbers of times, for steps from long to short.
class Distance {
 public:
  explicit Distance(std::vector<Steps> steps) : steps_(std::move(steps)) {
    for (size_t i = steps_.size(); i-- > 0;) {
      reach_.push_back({steps_[i].bytes * steps_[i].lowest, steps_[i].bytes * steps_[i].highest});
      if (reach_.size() == 1) continue;
      reach_.back().first += reach_[reach_.size() - 2].first;
      reach_.back().second += reach_[reach_.size() - 2].second;
    }
    std::reverse(reach_.begin(), reach_.end());
  }

  bool can_be(int64_t distance, size_t i = 0) {
    if (i == steps_.size()) return distance == 0;
    if (--left_ < 0) return true;
    if (distance < reach_[i].first || distance > reach_[i].second) return false;
    const Steps& step = steps_[i];
    const auto [low, high] = i + 1 < steps_.size() ? reach_[i + 1] : std::pair<int64_t, int64_t>{};
    const int64_t first = std::max(step.lowest, -floor_div(high - distance, step.bytes));
    const int64_t last = std::min(step.highest, floor_div(distance - low, step.bytes));
    for (int64_t times = first; times <= last; ++times)
      if (can_be(distance - times * step.bytes, i + 1)) return true;
    return false;
  }

 private:
  std::vector<Steps> steps_;
  std::vector<std::pair<int64_t, int64_t>> reach_;  // of the steps from here on
  int left_ = 100'000;
};

}  // namespace

bool have_common_memory(const at::Tensor& one, const at::Tensor& other) {
  if (!one.storage().is_alias_of(other.storage()) || !one.numel() || !other.numel()) return false;
  std::map<int64_t, Steps, std::greater<>> steps;
  const auto take = [&](int64_t bytes, int64_t lowest, int64_t highest) {
    Steps& step = steps[bytes];
    step = {bytes, step.lowest + lowest, step.highest + highest};
  };
  const auto item = [](const at::Tensor& t) { return static_cast<int64_t>(t.itemsize()); };
  for (int64_t d = 0; d < one.dim(); ++d)
    if (one.stride(d)) take(one.stride(d) * item(one), 0, one.size(d) - 1);
  for (int64_t d = 0; d < other.dim(); ++d)
    if (other.stride(d)) take(other.stride(d) * item(other), 1 - other.size(d), 0);
  take(1, 1 - item(other), item(one) - 1);
  std::vector<Steps> sorted;
  for (const auto& [bytes, step] : steps) sorted.push_back(step);
  return Distance(std::move(sorted))
      .can_be(other.storage_offset() * item(other) - one.storage_offset() * item(one));
}

bool have_same_elements(const at::Tensor& one, const at::Tensor& other) {
  return one.storage().is_alias_of(other.storage()) && one.dtype() == other.dtype() &&
         one.sizes() == other.sizes() && one.strides() == other.strides() &&
         one.storage_offset() == other.storage_offset();
}

}  // namespace fulgurite
