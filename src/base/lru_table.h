// A bounded table: found by hash in constant time, the least recently used value dropped first.
#pragma once

#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <unordered_map>

namespace fulgurite {

template <class T>
class LruTable {
 public:
  using Pointer = std::shared_ptr<T>;

  explicit LruTable(size_t capacity) : capacity_(capacity) {}

  // The most recently added value of that hash for which `serves(value)` holds, or null.
  template <class Predicate>
  Pointer find(uint64_t hash, Predicate&& serves) {
    auto [first, end] = by_hash_.equal_range(hash);
    for (auto it = first; it != end; ++it) {
      if (!serves(*it->second->value)) continue;
      if (it->second != order_.begin()) order_.splice(order_.begin(), order_, it->second);
      return it->second->value;
    }
    return nullptr;
  }

  void add(uint64_t hash, Pointer value) {
    while (order_.size() >= capacity_) drop_oldest();
    order_.push_front({hash, std::move(value)});
    by_hash_.emplace(hash, order_.begin());
  }

  void clear() {
    by_hash_.clear();
    // Destroyed after the table is empty: what a value's destructor runs may look into it.
    std::list<Node> dropped = std::move(order_);
    order_.clear();
  }

  size_t size() const { return order_.size(); }

  // Calls `f(pointer)`, the most recently used first.
  template <class F>
  void for_each(F&& f) const {
    for (const Node& node : order_) f(node.value);
  }

 private:
  struct Node {
    uint64_t hash;
    Pointer value;
  };

  void drop_oldest() {
    const auto oldest = std::prev(order_.end());
    auto [first, end] = by_hash_.equal_range(oldest->hash);
    for (auto it = first; it != end; ++it)
      if (it->second == oldest) {
        by_hash_.erase(it);
        break;
      }
    const Pointer dropped = std::move(oldest->value);
    order_.pop_back();
  }

  size_t capacity_;
  std::list<Node> order_;  // the most recently used first
  std::unordered_multimap<uint64_t, typename std::list<Node>::iterator> by_hash_;
};

}  // namespace fulgurite
