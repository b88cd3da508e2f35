#include "ops/catalogue.h"

#include <string>
#include <unordered_map>

#include <ATen/core/stack.h>

#include "base/error.h"
#include "ops/catalogue/families.h"

namespace fulgurite {
namespace {

namespace families = catalogue_families;

constexpr std::array effectful_namespaces{
    std::string_view("c10d::"), std::string_view("_c10d_functional::"),
    std::string_view("_c10d_functional_autograd::"), std::string_view("symm_mem::"),
    std::string_view("profiler::")};

using Index = std::unordered_map<std::string_view, const OpRecord*>;

Index make_index() {
  Index index;
  for (auto family : catalogue())
    for (const OpRecord& record : family)
      require(index.emplace(record.op, &record).second, "two records for {}", record.op);
  return index;
}

}  // namespace

void give_nothing(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  require(op.schema().returns().empty(), "{} returns something", op.schema().name());
  torch::jit::drop(*stack, op.schema().arguments().size());
}

std::span<const std::span<const OpRecord>> catalogue() {
  static const std::array all{families::activations, families::arithmetic,
                              families::attention,   families::convolution_family,
                              families::effects,     families::embeddings,
                              families::factories,   families::functions,
                              families::indexing,    families::layers,
                              families::layouts,     families::linear_algebra,
                              families::losses,      families::moves,
                              families::norms,       families::optimizers,
                              families::pointwise,   families::pooling,
                              families::products,    families::random,
                              families::reductions,  families::views};
  return all;
}

const OpRecord* find_record(const c10::OperatorHandle& op) {
  static const Index index = make_index();
  constexpr std::string_view aten = "aten::";
  std::string key = op.operator_name().name;
  if (key.starts_with(aten)) key.erase(0, aten.size());
  if (const auto& overload = op.operator_name().overload_name; !overload.empty())
    key += '.' + overload;
  const auto it = index.find(key);
  return it == index.end() ? nullptr : it->second;
}

bool in_effectful_namespace(std::string_view name) {
  for (auto space : effectful_namespaces)
    if (name.starts_with(space)) return true;
  return false;
}

}  // namespace fulgurite
