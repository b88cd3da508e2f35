#include "capture/origins.h"

#include <utility>

#include "capture/tracer.h"
#include "ir/rename.h"

namespace fulgurite {
namespace {

thread_local Origins* active_origins = nullptr;

void inherit(Call& call, const Call* origin) {
  call.source = origin ? origin->source : -1;
  call.module = origin ? origin->module : -1;
  if (origin) call.executor = origin->executor;
  for (Call& inner : call.body) {
    inherit(inner, origin);
    inner.executor.clear();
  }
}

}  // namespace

Origins::Origins(std::function<const Call*()> current, bool in_language)
    : current_(std::move(current)),
      in_language_(in_language),
      outer_(std::exchange(active_origins, this)) {}

Origins::~Origins() { active_origins = outer_; }

Origins* Origins::active() { return active_origins; }

int32_t Origins::note() {
  const Call* origin = current_();
  if (!origin) return -1;
  if (noted_.empty() || noted_.back() != origin) noted_.push_back(origin);
  return static_cast<int32_t>(noted_.size()) - 1;
}

void Origins::mark() {
  mark_ = static_cast<int32_t>(noted_.size());
  noted_.push_back(nullptr);
}

const Call* Origins::of(const Call& recorded) const {
  return recorded.source < 0 ? nullptr : noted_.at(static_cast<size_t>(recorded.source));
}

void Successor::stands_for(ValueId id, const at::Tensor& tensor) {
  if (const ValueId made = trace_value(tensor); made != kNoValue) numbers_.emplace(made, id);
}

Trace Successor::of(Trace made, const Origins& origins) const {
  made.name = old_.name;
  for (size_t i = 0; i < old_.inputs.size(); ++i) made.inputs[i].path = old_.inputs[i].path;
  for (Call& call : made.calls) inherit(call, origins.of(call));
  made.sources = old_.sources;
  made.modules = old_.modules;
  renumber(made);
  return made;
}

// Values that are no more keep their types, and share memory with none.
void Successor::renumber(Trace& made) const {
  Renaming renaming(made.values.size());
  auto next = static_cast<ValueId>(old_.values.size());
  for (ValueId id = 0; id < static_cast<ValueId>(made.values.size()); ++id) {
    const auto known = numbers_.find(id);
    renaming.set(id, known == numbers_.end() ? next++ : known->second);
  }
  std::vector<Value> values = old_.values;
  for (Value& value : values) value.type.storage = made.storages++;
  values.resize(next);
  for (ValueId id = 0; id < static_cast<ValueId>(made.values.size()); ++id)
    values[renaming.of(id)] = std::move(made.values[id]);
  made.values = std::move(values);
  for (Input& input : made.inputs) input.id = renaming.of(input.id);
  for (Call& call : made.calls) renaming.apply(call);
  renaming.apply(made.outputs);
}

}  // namespace fulgurite
