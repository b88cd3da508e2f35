// Maximum flows by Dinitz's algorithm (1970).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace fulgurite {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 4;

// Nodes and edges of a flow network; edges are stored in pairs, each the reverse of the other.
class FlowNetwork {
 public:
  explicit FlowNetwork(size_t nodes) : edges_of_(nodes), level_(nodes), next_(nodes) {}

  void add(size_t from, size_t to, int64_t capacity) {
    edges_of_[from].push_back(edges_.size());
    edges_.push_back({to, capacity});
    edges_of_[to].push_back(edges_.size());
    edges_.push_back({from, 0});
  }

  int64_t maximise(size_t source, size_t sink) {
    int64_t flow = 0;
    while (find_levels(source, sink)) {
      std::ranges::fill(next_, 0);
      while (const int64_t pushed = push(source, sink, kUnlimited)) flow += pushed;
    }
    return flow;
  }

  // Nodes from which more could flow to the sink.
  std::vector<bool> before(size_t sink) const {
    std::vector<bool> reaches(edges_of_.size(), false);
    std::vector<size_t> queue{sink};
    reaches[sink] = true;
    while (!queue.empty()) {
      const size_t node = queue.back();
      queue.pop_back();
      for (size_t e : edges_of_[node]) {
        const size_t from = edges_[e].to;
        if (reaches[from] || edges_[e ^ 1].left <= 0) continue;
        reaches[from] = true;
        queue.push_back(from);
      }
    }
    return reaches;
  }

 private:
  struct Edge {
    size_t to;
    int64_t left;
  };

  bool find_levels(size_t source, size_t sink) {
    std::ranges::fill(level_, -1);
    level_[source] = 0;
    std::vector<size_t> queue{source};
    for (size_t i = 0; i < queue.size(); ++i)
      for (size_t e : edges_of_[queue[i]]) {
        if (edges_[e].left <= 0 || level_[edges_[e].to] >= 0) continue;
        level_[edges_[e].to] = level_[queue[i]] + 1;
        queue.push_back(edges_[e].to);
      }
    return level_[sink] >= 0;
  }

  int64_t push(size_t node, size_t sink, int64_t limit) {
    if (node == sink) return limit;
    for (size_t& i = next_[node]; i < edges_of_[node].size(); ++i) {
      const size_t e = edges_of_[node][i];
      if (edges_[e].left <= 0 || level_[edges_[e].to] != level_[node] + 1) continue;
      const int64_t pushed = push(edges_[e].to, sink, std::min(limit, edges_[e].left));
      if (pushed == 0) continue;
      edges_[e].left -= pushed;
      edges_[e ^ 1].left += pushed;
      return pushed;
    }
    return 0;
  }

  std::vector<Edge> edges_;
  std::vector<std::vector<size_t>> edges_of_;
  std::vector<int> level_;
  std::vector<size_t> next_;
};

}  // namespace fulgurite
