#include "passes/opened.h"

#include <set>

#include "base/error.h"
#include "ops/catalogue.h"
#include "ops/facts.h"

namespace fulgurite {
namespace {

Parts known_parts(const Call& call) {
  const OpRecord* record = find_record(*call.op.aten);
  return record ? record->parts : nullptr;
}

bool may_open(const Call& call) {
  return call.op.aten && call.mode != GradMode::Grad && call.retyped.empty() && !has_effect(call) &&
         (!call.body.empty() || known_parts(call));
}

std::vector<Call> parts_of(Trace& trace, const Call& call) {
  if (!call.body.empty()) return call.body;
  try {
    return known_parts(call)(trace, call);
  } catch (const Unsupported&) {
    return {};
  }
}

bool takes_tensors(const Call& call) {
  bool any = false;
  for_each_value(call.args, [&](ValueId) { any = true; });
  return any;
}

bool add_parts(Trace& trace, const Call& call, const Executor& executor, std::vector<Call>& parts) {
  std::vector<Call> made = parts_of(trace, call);
  for (Call& part : made) {
    if (has_effect(part) || !part.retyped.empty()) return false;
    const bool claimed = executor.claims(trace, part).empty();
    if (!claimed && takes_tensors(part)) {
      if (!may_open(part) || !add_parts(trace, part, executor, parts)) return false;
      continue;
    }
    part.source = call.source;
    part.module = call.module;
    if (claimed) part.executor = executor.name;
    parts.push_back(std::move(part));
  }
  return !made.empty();
}

}  // namespace

std::vector<Call> opened(Trace& trace, const Call& call, const Executor& executor) {
  std::vector<Call> parts;
  if (!may_open(call) || !add_parts(trace, call, executor, parts)) return {};
  // What is made of no tensors raises no error of data: it is dropped where nobody uses it.
  std::set<ValueId> used;
  for_each_value(call.results, [&](ValueId id) { used.insert(id); });
  for (const Call& part : parts) for_each_value(part.args, [&](ValueId id) { used.insert(id); });
  std::erase_if(parts, [&](const Call& part) {
    bool needed = takes_tensors(part);
    for_each_value(part.results, [&](ValueId id) { needed |= used.contains(id); });
    return !needed;
  });
  return parts;
}

}  // namespace fulgurite
