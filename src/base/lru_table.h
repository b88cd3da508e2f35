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

  // Drops the values for which `gone(value)` holds.
  template <class Predicate>
  void drop_if(Predicate&& gone) {
    std::list<Node> dropped;  // destroyed last: what a destructor runs may look into the table
    for (auto it = order_.begin(); it != order_.end();) {
      const auto here = it++;
      if (!gone(*here->value)) continue;
      forget(here);
      dropped.splice(dropped.end(), order_, here);
    }
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
    forget(oldest);
    const Pointer dropped = std::move(oldest->value);
    order_.pop_back();
  }

  void forget(typename std::list<Node>::iterator node) {
    auto [first, end] = by_hash_.equal_range(node->hash);
    for (auto it = first; it != end; ++it)
      if (it->second == node) {
        by_hash_.erase(it);
        return;
      }
  }

  size_t capacity_;
  std::list<Node> order_;  // the most recently used first
  std::unordered_multimap<uint64_t, typename std::list<Node>::iterator> by_hash_;
};

}  // namespace fulgurite
