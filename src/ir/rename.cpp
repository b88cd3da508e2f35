#include "ir/rename.h"

namespace fulgurite {

void Renaming::set(ValueId from, ValueId to) {
  to_.at(from) = to;
  any_ = true;
}

ValueId Renaming::of(ValueId id) const {
  if (id == kNoValue || id >= static_cast<ValueId>(to_.size()) || to_[id] == kNoValue) return id;
  return to_[id];
}

void Renaming::apply(std::vector<Arg>& args) const {
  for (Arg& arg : args)
    for (ValueId& id : arg.values) id = of(id);
}

void Renaming::apply(std::vector<ValueId>& ids) const {
  for (ValueId& id : ids) id = of(id);
}

void Renaming::apply(Call& call) const {
  if (!any_) return;
  apply(call.args);
  apply(call.results);
  for (Retyped& change : call.retyped) change.id = of(change.id);
  apply(call.frees);
  for (Call& inner : call.body) apply(inner);
  if (call.gradient) call.gradient = renamed(*call.gradient);
}

std::shared_ptr<const CustomGradient> Renaming::renamed(CustomGradient gradient) const {
  for (auto* ids : {&gradient.saved, &gradient.kept, &gradient.dirty, &gradient.non_differentiable})
    apply(*ids);
  for (CustomGradient::Case& one : gradient.cases) {
    apply(one.results);
    for (Call& call : one.calls) apply(call);
  }
  return std::make_shared<const CustomGradient>(std::move(gradient));
}

}  // namespace fulgurite
