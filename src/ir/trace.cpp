#include "ir/trace.h"

#include "base/error.h"

namespace fulgurite {

Arg Arg::of(ValueId id) {
  Arg arg;
  if (id == kNoValue) return arg;
  arg.kind = Kind::Value;
  arg.values.push_back(id);
  return arg;
}

Arg Arg::list(c10::ArrayRef<ValueId> ids, bool optional_elements) {
  Arg arg;
  arg.kind = Kind::ValueList;
  arg.optional_elements = optional_elements;
  arg.values.append(ids.begin(), ids.end());
  return arg;
}

Arg Arg::literal(c10::IValue constant) {
  Arg arg;
  arg.constant = std::move(constant);
  return arg;
}

Op Op::named(std::string region) {
  Op op;
  op.region = std::move(region);
  return op;
}

std::string Op::name() const {
  if (!aten) return region;
  const auto& name = aten->operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

bool Op::operator==(const Op& other) const {
  return aten.has_value() == other.aten.has_value() && (!aten || *aten == *other.aten) &&
         region == other.region;
}

ValueId add_value(Trace& trace, TensorType type) {
  if (type.storage == kNoStorage) type.storage = trace.storages++;
  trace.values.push_back({std::move(type), ""});
  return static_cast<ValueId>(trace.values.size()) - 1;
}

const TensorType& type_of(const Trace& trace, ValueId id) {
  require(id >= 0 && id < static_cast<ValueId>(trace.values.size()), "no value {} in trace {}", id,
          trace.name);
  return trace.values[id].type;
}

OutputTree flat_tree(int32_t n) {
  OutputTree tree;
  for (int32_t i = 0; i < n; ++i) {
    OutputTree leaf;
    leaf.kind = OutputTree::Kind::Leaf;
    leaf.leaf = i;
    if (n == 1) return leaf;
    tree.children.push_back(std::move(leaf));
  }
  return tree;
}

}  // namespace fulgurite
