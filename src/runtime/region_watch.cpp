#include "runtime/region_watch.h"

namespace fulgurite {
namespace {

thread_local const RegionWatch* t_watch = nullptr;

}  // namespace

RegionWatch::RegionWatch(Observer observer)
    : observer_(std::move(observer)), before_(std::exchange(t_watch, this)) {}
RegionWatch::~RegionWatch() { t_watch = before_; }

const RegionWatch* RegionWatch::current() { return t_watch; }

std::vector<at::Tensor> RegionWatch::run(std::shared_ptr<const CompiledRegion> region,
                                         std::vector<at::Tensor> inputs) const {
  std::vector<at::Tensor> fused = run_region(*region, inputs);
  std::vector<at::Tensor> expected = execute(region->calls, inputs);
  observer_({std::move(region), std::move(inputs), std::move(fused), expected});
  return expected;
}

std::vector<at::Tensor> run_region(const CompiledRegion& region,
                                   const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> given = inputs;
  std::vector<RegionInput> kept;
  for (at::Tensor& input : given) kept.push_back({&input, false});
  c10::SmallVector<at::Tensor, 4> results;
  if (!region.code->run(kept, results)) return execute(region.calls, std::move(given));
  return {results.begin(), results.end()};
}

}  // namespace fulgurite
