// A value per operator, worked out once and shared by all threads.
#pragma once

#include <memory>
#include <mutex>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

namespace fulgurite {

// How many operators have been unregistered so far. The handle of one that went may come back as
// the handle of another: what was worked out before is not to be used afterwards.
uint64_t operators_unregistered();

namespace per_operator_detail {

template <class T>
struct Table {
  uint64_t unregistered = 0;
  std::unordered_map<c10::OperatorHandle, const T*> values;

  void refresh(uint64_t now) {
    if (now == unregistered) [[likely]]
      return;
    values.clear();
    unregistered = now;
  }
};

template <class T>
struct Shared {
  std::mutex mutex;
  Table<T> table;
  std::vector<std::unique_ptr<const T>> kept;  // of operators that went, too
};

}  // namespace per_operator_detail

// make(op), called once per operator. The reference stays valid for the life of the process.
template <auto make>
const auto& per_operator(const c10::OperatorHandle& op) {
  using T = std::invoke_result_t<decltype(make), const c10::OperatorHandle&>;
  thread_local per_operator_detail::Table<T> local;
  const uint64_t now = operators_unregistered();
  local.refresh(now);
  const T*& known = local.values[op];
  if (known) [[likely]]
    return *known;
  auto made = std::make_unique<const T>(make(op));  // not under the lock: it may come back here
  static auto& shared = *new per_operator_detail::Shared<T>;  // outlives threads
  std::lock_guard lock(shared.mutex);
  shared.table.refresh(now);
  const T*& value = shared.table.values[op];
  if (!value) value = shared.kept.emplace_back(std::move(made)).get();
  return *(local.values[op] = value);
}

}  // namespace fulgurite
