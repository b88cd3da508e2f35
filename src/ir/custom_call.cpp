#include "ir/custom_call.h"

#include <algorithm>

namespace fulgurite {
namespace {

std::vector<int> places_of(const std::vector<ValueId>& some, const std::vector<Arg>& all) {
  std::vector<int> places;
  for (size_t i = 0; i < all.size(); ++i)
    if (std::find(some.begin(), some.end(), all[i].values[0]) != some.end())
      places.push_back(static_cast<int>(i));
  return places;
}

}  // namespace

std::shared_ptr<const CustomFunction> custom_function(const Call& call, const MakeProgram& make) {
  const CustomGradient& gradient = *call.gradient;
  auto made = std::make_shared<CustomFunction>();
  made->name = call.op.region;
  made->inputs = gradient.differentiable;
  made->results = call.results.size();
  made->zeros_for_none = gradient.zeros_for_none;
  made->dirty = places_of(gradient.dirty, call.args);
  made->non_differentiable = places_of(gradient.non_differentiable, call.results);
  std::vector<ValueId> inputs, outputs, held = gradient.saved;
  held.insert(held.end(), gradient.kept.begin(), gradient.kept.end());
  for_each_value(call.args, [&](ValueId id) { inputs.push_back(id); });
  for_each_value(call.results, [&](ValueId id) { outputs.push_back(id); });
  for (size_t i = 0; i < held.size(); ++i) {
    const auto result = std::find(outputs.begin(), outputs.begin() + made->results, held[i]);
    const auto place = static_cast<size_t>(result - outputs.begin());
    made->held.push_back(
        {place < made->results ? static_cast<int>(place) : -1, i < gradient.saved.size()});
  }
  outputs.insert(outputs.end(), held.begin(), held.end());
  made->forward = make(call.body, inputs, outputs);
  for (const CustomGradient::Case& one : gradient.cases) {
    CustomFunction::Case& lowered = made->cases.emplace_back();
    lowered.given = one.given;
    std::vector<ValueId> taken;
    for (size_t i = 0; i < one.gradients.size(); ++i) {
      if (one.gradients[i] == kNoValue) continue;
      lowered.used.push_back(static_cast<int>(i));
      taken.push_back(one.gradients[i]);
    }
    taken.insert(taken.end(), held.begin(), held.end());
    lowered.program = make(one.calls, taken, one.results);
  }
  return made;
}

}  // namespace fulgurite
