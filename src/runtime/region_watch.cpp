#include "runtime/region_watch.h"

namespace fulgurite {
namespace {

thread_local const RegionWatch* t_watch = nullptr;

}  // namespace

RegionWatch::RegionWatch(Observer observer)
    : observer_(std::move(observer)), before_(std::exchange(t_watch, this)) {}
RegionWatch::~RegionWatch() { t_watch = before_; }

const RegionWatch* RegionWatch::current() { return t_watch; }

namespace {

// Of the generators that some calls draw from.
class GeneratorStates {
 public:
  explicit GeneratorStates(const Lowered& calls) {
    if (calls.draws) keep(at::globalContext().defaultGenerator(at::kCPU));
    for (const Instruction& call : calls.instructions)
      for (const Operand& operand : call.operands)
        if (operand.constant.isGenerator()) keep(operand.constant.toGenerator());
  }

  void restore() {
    for (auto& [generator, state] : kept_) {
      const std::lock_guard lock(generator.mutex());
      generator.set_state(state);
    }
  }

 private:
  void keep(at::Generator generator) {
    const std::lock_guard lock(generator.mutex());
    kept_.emplace_back(generator, generator.get_state());
  }

  std::vector<std::pair<at::Generator, at::Tensor>> kept_;
};

}  // namespace

std::vector<at::Tensor> RegionWatch::run(std::shared_ptr<const CompiledRegion> region,
                                         std::vector<at::Tensor> inputs) const {
  GeneratorStates before(region->calls);
  std::vector<at::Tensor> fused = run_region(*region, inputs);
  before.restore();
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
  if (!region.code->run(kept, {}, results)) return execute(region.calls, std::move(given));
  return {results.begin(), results.end()};
}

}  // namespace fulgurite
