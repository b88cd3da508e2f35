#include "torch/operator_kernels.h"

#include <string_view>

namespace fulgurite {
namespace {

// Explicit instantiation may name private members; a friend hands them out.
const c10::impl::OperatorEntry& entry_of(const c10::OperatorHandle& op);

template <auto member>
struct OpenHandle {
  friend const c10::impl::OperatorEntry& entry_of(const c10::OperatorHandle& op) {
    return (op.*member)->op;
  }
};
template struct OpenHandle<&c10::OperatorHandle::operatorDef_>;

bool is_python(std::string_view debug) { return debug.find(".py:") != std::string_view::npos; }

template <class Map>
Kernels look_up(const Map& map, c10::DispatchKey key) {
  auto it = map.find(key);
  if (it == map.end() || it->second.empty()) return {};
  Kernels kernels;
  kernels.python_in_use = is_python(it->second.front().debug);
  for (const auto& kernel : it->second)
    if (!is_python(kernel.debug)) {
      kernels.cpp = &kernel.kernel;
      break;
    }
  return kernels;
}

Kernels look_up_in(const c10::impl::OperatorEntry& entry, c10::DispatchKey key);

template <auto member>
struct OpenEntry {
  friend Kernels look_up_in(const c10::impl::OperatorEntry& entry, c10::DispatchKey key) {
    return look_up(entry.*member, key);
  }
};
template struct OpenEntry<&c10::impl::OperatorEntry::kernels_>;

}  // namespace

Kernels kernels_at(const c10::OperatorHandle& op, c10::DispatchKey key) {
  return look_up_in(entry_of(op), key);
}

const void* operator_identity(const c10::OperatorHandle& op) { return &entry_of(op); }

}  // namespace fulgurite
