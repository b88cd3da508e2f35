#include "passes/saved_values.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "ops/facts.h"
#include "passes/memory.h"

namespace fulgurite {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;
// Of values with as many bytes, what is cheap is not kept: the other one is in memory anyway.
constexpr int64_t kTies = 16;

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
      while (const int64_t pushed = push(source, sink, kNever)) flow += pushed;
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

// Values that the needed ones come from, as far as they may be computed again.
class Cut {
 public:
  Cut(const Trace& trace, const std::vector<size_t>& forward, const CheapCall& cheap)
      : trace_(trace), cheap_(cheap), maker_(trace.values.size(), nullptr) {
    for (size_t i : forward)
      for_each_value(trace.calls[i].results, [&](ValueId id) {
        if (makes(trace.calls[i], id)) maker_[id] = &trace.calls[i];
      });
    for (size_t i : forward)
      for_each_change(trace.calls[i],
                      [&](ValueId id) { written_.push_back(type_of(trace, id).storage); });
  }

  std::vector<ValueId> least(const std::vector<ValueId>& needed) {
    for (ValueId id : needed) used_.insert(type_of(trace_, id).storage);
    for (ValueId id : needed) visit(id);
    FlowNetwork network(2 + 2 * order_.size());
    for (size_t n = 0; n < order_.size(); ++n) {
      const ValueId id = order_[n];
      network.add(in(n), out(n), bytes_to_keep(id));
      if (again_[n])
        for_each_value(maker_[id]->args,
                       [&](ValueId arg) { network.add(out(number_.at(arg)), in(n), kNever); });
      if (!again_[n] || !has_arguments(*maker_[id])) network.add(kSource, in(n), source_of(n));
    }
    for (ValueId id : needed) network.add(out(number_.at(id)), kSink, kNever);
    require(network.maximise(kSource, kSink) < kNever, "nothing can be saved for a backward pass");
    const std::vector<bool> before_sink = network.before(kSink);
    std::vector<ValueId> saved;
    for (size_t n = 0; n < order_.size(); ++n)
      if (!before_sink[in(n)] && before_sink[out(n)]) saved.push_back(order_[n]);
    return saved;
  }

 private:
  static constexpr size_t kSource = 0, kSink = 1;
  static size_t in(size_t n) { return 2 + 2 * n; }
  static size_t out(size_t n) { return 3 + 2 * n; }

  // Depth first, with a stack of its own: programs may be long.
  void visit(ValueId root) {
    std::vector<ValueId> open{root};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      if (!number_.emplace(id, order_.size()).second) continue;
      order_.push_back(id);
      again_.push_back(maker_[id] && may_repeat(*maker_[id]));
      if (again_.back())
        for_each_value(maker_[id]->args, [&](ValueId arg) { open.push_back(arg); });
    }
  }

  bool may_repeat(const Call& call) const {
    if (must_run(call) || has_effect(call)) return false;
    bool is_written = false;
    const auto look = [&](ValueId id) {
      is_written |= std::ranges::count(written_, type_of(trace_, id).storage) > 0;
    };
    for_each_value(call.args, look);
    for_each_value(call.results, look);
    return !is_written && (is_view(call) || cheap_(trace_, call));
  }

  bool is_view(const Call& call) const {
    bool shares = false;
    for_each_value(call.results, [&](ValueId id) { shares |= shares_memory(call, id); });
    return shares;
  }
  bool shares_memory(const Call& call, ValueId result) const {
    bool shares = false;
    for_each_value(call.args, [&](ValueId arg) {
      shares |= type_of(trace_, arg).storage == type_of(trace_, result).storage;
    });
    return shares;
  }

  static bool has_arguments(const Call& call) {
    bool any = false;
    for_each_value(call.args, [&](ValueId) { any = true; });
    return any;
  }

  // What is made of nothing costs nothing to make again.
  int64_t source_of(size_t n) const { return again_[n] ? 0 : kNever; }

  int64_t bytes_to_keep(ValueId id) const {
    // An input that autograd does not save may be written to before the backward pass.
    if (!maker_[id]) return used_.contains(type_of(trace_, id).storage) ? 0 : kNever;
    if (again_[number_.at(id)] && shares_memory(*maker_[id], id)) return kNever;
    const int64_t bytes = std::max<int64_t>(1, type_of(trace_, id).nbytes);
    return kTies * bytes + (again_[number_.at(id)] ? bytes : 0);
  }

  const Trace& trace_;
  const CheapCall& cheap_;
  std::vector<const Call*> maker_;  // by value; null for inputs
  std::vector<StorageId> written_;
  std::unordered_set<StorageId> used_;  // by what the backward pass needs
  std::unordered_map<ValueId, size_t> number_;
  std::vector<ValueId> order_;
  std::vector<bool> again_;  // by number: may be computed again
};

}  // namespace

std::vector<ValueId> saved_values(const Trace& trace, const std::vector<size_t>& forward,
                                  const std::vector<ValueId>& needed, const CheapCall& cheap) {
  return Cut(trace, forward, cheap).least(needed);
}

}  // namespace fulgurite
