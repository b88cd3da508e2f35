// Regions compared with the calls that they were made of, while a program runs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/ATen.h>

#include "runtime/instruction.h"

namespace fulgurite {

// One run of a region.
struct WatchedRun {
  std::shared_ptr<const CompiledRegion> region;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> fused;     // what the code gives
  std::vector<at::Tensor> expected;  // what the calls give, one by one
};

// While it lives, each region that this thread runs is run a second time, call by call, and the
// program goes on with what the calls give: what is seen of a region is its own doing. The observer
// must not throw.
class RegionWatch {
 public:
  using Observer = std::function<void(const WatchedRun&)>;

  explicit RegionWatch(Observer observer);
  ~RegionWatch();
  RegionWatch(const RegionWatch&) = delete;

  // Of this thread; null: none.
  static const RegionWatch* current();

  // What the calls of the region give.
  std::vector<at::Tensor> run(std::shared_ptr<const CompiledRegion> region,
                              std::vector<at::Tensor> inputs) const;

 private:
  Observer observer_;
  const RegionWatch* before_;
};

// One tensor per result, by the code of the region, or call by call where the code declines. The
// inputs stay as they are.
std::vector<at::Tensor> run_region(const CompiledRegion& region,
                                   const std::vector<at::Tensor>& inputs);

}  // namespace fulgurite
