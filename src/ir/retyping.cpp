#include "ir/retyping.h"

namespace fulgurite {

void retype(const Call& call, Retypings& types) {
  for (const Call& inner : call.body) retype(inner, types);
  for (const Retyped& retyped : call.retyped) types[retyped.id] = &retyped.type;
}

const TensorType& type_after(const Trace& trace, const Call& call, ValueId id) {
  Retypings types;
  retype(call, types);
  const auto found = types.find(id);
  return found != types.end() ? *found->second : type_of(trace, id);
}

}  // namespace fulgurite
