#include "executors/fused_cpu/memory_time.h"

#include <algorithm>

#include <c10/util/accumulate.h>

namespace fulgurite {
namespace {

// Of a byte, by the cache that holds the tensors. `fresh`: of memory that the system hands out for
// a large result, and takes back afterwards.
struct Rates {
  double read, write, aten_read, aten_write, fresh;
};
constexpr Rates kInSecondCache{0.008, 0.008, 0.01, 0.01, 0};
constexpr Rates kInLastCache{0.0105, 0.0105, 0.0125, 0.0125, 0};
constexpr Rates kInMemory{0.03, 0.025, 0.03, 0.045, 0.15};

int64_t bytes_of(const LoopProgram& program, const Access& access) {
  auto bytes = static_cast<int64_t>(c10::elementSize(access.dtype));
  for (int32_t d = 0; d < program.rank(); ++d)
    if (access.strides[d] != 0) bytes *= program.sizes[d];
  return bytes;
}

// By how large the largest tensor is, which is the same for a region and its parts: that they move
// less apart does not make their memory any nearer.
const Rates& rates_of(const LoopProgram& program) {
  constexpr int64_t kNear = int64_t{1} << 20, kFar = int64_t{24} << 20;
  constexpr int64_t kUsual = 3;  // tensors of a call
  int64_t largest = 0;
  for (const Access& load : program.loads)
    if (load.buffer < program.first_drawn()) largest = std::max(largest, bytes_of(program, load));
  for (const Store& store : program.stores)
    largest = std::max(largest, bytes_of(program, store.access));
  if (largest <= kNear / kUsual) return kInSecondCache;
  return largest <= kFar / kUsual ? kInLastCache : kInMemory;
}

double moved(const LoopProgram& program, double read, double write) {
  double written = 0;
  for (const Store& store : program.stores)
    written += static_cast<double>(bytes_of(program, store.access));
  return (static_cast<double>(program.bytes()) - written) * read + written * write;
}

bool is_turned(const LoopProgram& program, const Access& access) {
  const int64_t stride = access.strides[program.lane_dimension()];
  return stride != 0 && stride != 1 && access.strides[program.rank() - 2] == 1;
}

// Whether squares of what lies across the lanes are turned in registers.
bool goes_by_tiles(const LoopProgram& program) {
  if (program.reduced || program.rank() < 2) return false;
  const auto is_index = [](const ScalarNode& node) { return node.prim == Prim::Index; };
  if (std::ranges::any_of(program.statements.nodes(), is_index)) return false;
  for (const Store& store : program.stores)
    if (store.access.strides.back() != 1) return false;
  return std::ranges::all_of(program.loads, [&](const Access& load) {
    const int64_t stride = load.strides.back();
    return stride == 0 || stride == 1 || (is_turned(program, load) && !load.by_lane);
  });
}

// Nanoseconds of an element that is on another line of memory than its neighbours, by how large
// everything is.
struct Apart {
  double in_second_cache, in_last_cache, in_memory;
  double of(const LoopProgram& program) const {
    const int64_t bytes = program.bytes();
    if (bytes <= int64_t{1} << 20) return in_second_cache;
    return bytes <= int64_t{24} << 20 ? in_last_cache : in_memory;
  }
};

double strided(const LoopProgram& program, const Apart& apart) {
  constexpr int64_t kShort = 4;
  double places = 1, total = 0;
  for (const int64_t size : program.sizes) places *= static_cast<double>(size);
  const auto add = [&](const Access& access) {
    const int64_t stride = std::abs(access.strides[program.lane_dimension()]);
    if (stride > kShort) total += apart.of(program) * places;
    if (stride > 1 && stride <= kShort) total += 0.1 * places;
  };
  for (const Access& load : program.loads) add(load);
  for (const Store& store : program.stores)
    if (!store.per_row) add(store.access);
  return total;
}

// One tensor in another order and nothing else.
bool is_copy(const LoopProgram& program) {
  return program.loads.size() == 1 && program.stores.size() == 1 && program.reductions.empty() &&
         program.loads[0].dtype == program.stores[0].access.dtype &&
         program.statements[program.stores[0].statement].prim == Prim::Load;
}

}  // namespace

double memory_nanoseconds(const LoopProgram& program) {
  const Rates& rates = rates_of(program);
  return moved(program, rates.read, rates.write);
}

double aten_memory_nanoseconds(const LoopProgram& program) {
  const Rates& rates = rates_of(program);
  return moved(program, rates.aten_read, rates.aten_write);
}

double fresh_memory_nanoseconds(const LoopProgram& program) {
  return moved(program, 0, rates_of(program).fresh);
}

double strides_nanoseconds(const LoopProgram& program) {
  constexpr Apart kTiles{0.08, 0.15, 0.5}, kNarrowTiles{0.4, 0.4, 0.8}, kByLane{0.6, 2.5, 8};
  if (!goes_by_tiles(program)) return strided(program, kByLane);
  const bool narrow = std::ranges::any_of(program.loads, [&](const Access& load) {
    return is_turned(program, load) && c10::elementSize(load.dtype) < 4;
  });
  return strided(program, narrow ? kNarrowTiles : kTiles);
}

double aten_strides_nanoseconds(const LoopProgram& program) {
  constexpr double kBackwards = 0.5;  // elements of less than 4 bytes, one by one
  constexpr Apart kLoops{1, 3, 6}, kTransposingCopy{0.5, 0.5, 1};
  double places = 0;
  for (const Access& load : program.loads)
    if (load.strides[program.lane_dimension()] == -1 && c10::elementSize(load.dtype) < 4)
      places += static_cast<double>(c10::multiply_integers(program.sizes));
  return kBackwards * places + strided(program, is_copy(program) ? kTransposingCopy : kLoops);
}

}  // namespace fulgurite
