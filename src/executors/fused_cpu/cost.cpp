#include "executors/fused_cpu/cost.h"

#include <algorithm>
#include <array>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "codegen/loops/cpu_types.h"
#include "codegen/loops/lower.h"
#include "codegen/loops/prelude/prelude.h"
#include "codegen/loops/region.h"
#include "executors/fused_cpu/memory_time.h"
#include "ops/catalogue.h"
#include "ops/facts.h"

namespace fulgurite {
namespace {

// Nanoseconds.
constexpr double kKernelCall = 300, kAtenCall = 1000, kAtenReduction = 700;
constexpr double kPerByte = 0.02;                       // of what no more is known about
constexpr double kByLanes = 10;                         // a function of the C library, lane by lane
constexpr double kScattered = 0.6;                      // an element read where an index says
constexpr double kScatteredByLanes = 1.9;               // the same without instructions for it
constexpr double kOurWord = 0.3, kAtenWord = 3;         // of a generator
constexpr double kRunning = 0.85, kAtenRunning = 0.95;  // an addition that waits for the last
// Of an element of a half or bfloat16 in memory: an access.
constexpr double kNarrow = 0.025, kAtenNarrow = 0.08;
constexpr double kAtenLong = 0.25;  // of an integer of 8 bytes, which ATen has no vectors for
constexpr double kNarrowUnderMask = 0.05;  // one that may lie outside of its tensor

// Of one element in f32, in our vectors and in ATen's.
struct FunctionCost {
  double ours = 0.5, aten = 1.2;
};

FunctionCost cost_of(Function f) {
  switch (f) {
    case Function::ceil:
    case Function::floor:
    case Function::trunc:
    case Function::nearbyint:
      return {0.02, 0.02};
    case Function::sqrt:
      return {0.1, 0.1};
    case Function::exp:
    case Function::exp2:
    case Function::exp_negative:
      return {0.2, 0.45};
    case Function::expm1:
      return {0.26, 0.1};
    case Function::sigmoid:
    case Function::silu:
      return {0.24, 0.41};
    case Function::erf:
      return {0.52, 0.45};
    case Function::tanh:
    case Function::gelu_tanh:
      return {0.3, 1.6};
    case Function::pow:
    case Function::atan:
      return {0.8, 2.4};
    case Function::nextafter:
      return {0.8, 0.45};
    case Function::asinh:
      return {1, 18};
    case Function::acosh:
      return {1, 4};
    default:
      return {};
  }
}

bool is_wide(c10::ScalarType dtype) { return c10::elementSize(dtype) == 8; }
bool is_narrow_float(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::Half || dtype == c10::ScalarType::BFloat16;
}

// How often statements are computed.
class Counts {
 public:
  explicit Counts(const LoopProgram& program) : program_(program) {
    const int32_t first_inner = program.rank() - std::max(1, program.reduced);
    for (const ScalarNode& node : program.statements.nodes()) {
      uint64_t loops = 0;
      for (int32_t arg : node.args)
        if (arg >= 0) loops |= loops_[arg];
      if (node.prim == Prim::Index) loops |= uint64_t{1} << node.at;
      if (node.prim == Prim::Reduced) loops = kept_mask();
      if (is_running(node.prim)) loops |= ~kept_mask();
      if (node.prim == Prim::Load)
        for (int32_t d = 0; d < program.rank(); ++d)
          if (program.loads[node.at].strides[d] != 0) loops |= uint64_t{1} << d;
      loops_.push_back(loops);
      inner_.push_back(loops >> first_inner != 0);
    }
    for (int32_t d = 0; d < program.rank(); ++d) {
      all_ *= static_cast<double>(program.sizes[d]);
      if (d < first_inner) rows_ *= static_cast<double>(program.sizes[d]);
    }
    find_passes();
  }

  double all() const { return all_; }
  double rows() const { return rows_; }  // of the innermost loop, or of the reduced ones
  int32_t passes() const { return passes_; }
  // Each statement once for each place at which it differs.
  double fewest(int32_t i) const {
    double count = 1;
    for (int32_t d = 0; d < program_.rank(); ++d)
      if (loops_[i] >> d & 1) count *= static_cast<double>(program_.sizes[d]);
    return count;
  }
  double computed(int32_t i) const { return inner_[i] ? all_ * times_[i] : rows_; }
  // A read at a place of its own for each lane.
  bool is_scattered(int32_t i) const {
    const ScalarNode& node = program_.statements[i];
    return node.prim == Prim::Load && node.args[0] >= 0 &&
           (loops_[node.args[0]] >> program_.lane_dimension() & 1);
  }

 private:
  uint64_t kept_mask() const { return (uint64_t{1} << program_.kept()) - 1; }

  // A row is gone through once for each pass of reductions, and once for its results; there a
  // costly statement of the pass before is read again if it is kept in the memory of a result.
  void find_passes() {
    const size_t count = inner_.size();
    times_.assign(count, 0);
    for (const Reduction& r : program_.reductions) passes_ = std::max(passes_, r.pass + 1);
    std::vector<bool> before(count, false);
    for (int32_t pass = 0; pass <= passes_; ++pass) {
      std::vector<bool> needed(count, false);
      for (const Reduction& r : program_.reductions)
        if (r.pass == pass && !r.sampled) needed[r.statement] = true;
      if (pass == passes_) {
        for (const Store& store : program_.stores) needed[store.statement] = true;
        for (int32_t check : program_.statements.checks) needed[check] = true;
      }
      for (size_t i = count; i-- > 0;) {
        if (!needed[i]) continue;
        const ScalarNode& node = program_.statements[static_cast<int32_t>(i)];
        const bool kept = pass == passes_ && pass > 0 && before[i] && node.prim == Prim::Call;
        if (kept) continue;
        times_[i] += 1;
        for (int32_t arg : node.args)
          if (arg >= 0) needed[arg] = true;
      }
      before = std::move(needed);
    }
  }

  const LoopProgram& program_;
  std::vector<uint64_t> loops_;  // over which a statement varies
  std::vector<bool> inner_;      // by more than the row
  std::vector<int32_t> times_;   // in a row
  double all_ = 1, rows_ = 1;
  int32_t passes_ = 0;
};

int64_t narrow_accesses(const LoopProgram& program) {
  const auto is_narrow = [](const Access& access) { return is_narrow_float(access.dtype); };
  return std::ranges::count_if(program.loads, is_narrow) +
         std::ranges::count_if(program.stores, is_narrow, &Store::access);
}

double of_statement(const LoopProgram& program, const Counts& counts, int32_t i, int vector_bytes) {
  const ScalarNode& node = program.statements[i];
  const double width = is_wide(node.dtype) ? 2 : 1;
  switch (node.prim) {
    case Prim::Constant:
    case Prim::Given:
    case Prim::Reduced:
    case Prim::Count:
      return 0;
    case Prim::Load:
      if (counts.is_scattered(i))
        return vectors_of(program, vector_bytes).sixteens() ? kScattered : kScatteredByLanes;
      if (is_narrow_float(program.loads[node.at].dtype))
        return node.args[1] >= 0 ? kNarrowUnderMask : kNarrow;
      return (node.args[1] >= 0 ? 0.022 : 0.006) * width;
    case Prim::RunningSum:
    case Prim::RunningProduct:
      return program.columns ? 0.03 * width : kRunning;
    case Prim::Div:
      return (c10::isFloatingType(node.dtype) ? 0.08 : 1) * width;
    case Prim::Rem:
      return width;
    case Prim::Call: {
      const auto f = static_cast<Function>(node.at);
      const FunctionCost cost = cost_of(f);
      if (cost.ours <= 0.1) return cost.ours * width;
      const std::string piece = fmt::format("{}_{}", vector_name(node.dtype), name_of(f));
      if (!find_piece(piece, vector_bytes == 64)) return kByLanes;
      return cost.ours * (width > 1 ? 2.5 : 1);
    }
    default:
      return 0.007 * width;
  }
}

double of_statement_in_aten(const LoopProgram& program, const Counts& counts, int32_t i) {
  const ScalarNode& node = program.statements[i];
  const double width = is_wide(node.dtype) ? 2.5 : 1;
  if (node.prim == Prim::Call) return cost_of(static_cast<Function>(node.at)).aten * width;
  if (counts.is_scattered(i)) return kScattered;
  if (is_running(node.prim)) return kAtenRunning;
  if (node.prim == Prim::Div || node.prim == Prim::Rem)
    return c10::isFloatingType(node.dtype) ? 0.08 * width : width;
  return 0;
}

// Beside the extremes: ATen goes through them element by element.
bool finds_places(const LoopProgram& program) {
  return std::ranges::any_of(program.reductions, [&](const Reduction& r) {
    const ScalarNode& node = program.statements[r.statement];
    return r.kind == ReductionKind::Minimum && r.pass > 0 && node.prim == Prim::Select &&
           node.dtype == c10::ScalarType::Long;
  });
}

bool finds_extremes(const LoopProgram& program) {
  return std::ranges::any_of(program.reductions, [](const Reduction& r) {
    return r.kind == ReductionKind::Maximum || r.kind == ReductionKind::Minimum;
  });
}

// Whether elements are only put to other places, which ATen does byte by byte.
bool only_moves(const LoopProgram& program) {
  std::vector<bool> reads;  // the value depends on data
  for (const ScalarNode& node : program.statements.nodes()) {
    const auto depends = [&](int32_t arg) { return arg >= 0 && reads[arg]; };
    reads.push_back(node.prim == Prim::Load || std::ranges::any_of(node.args, depends));
  }
  return std::ranges::all_of(program.stores, [&](const Store& store) {
    const auto is_moved = [&](int32_t i) {
      const ScalarNode& node = program.statements[i];
      return node.prim == Prim::Constant ||
             (node.prim == Prim::Load && program.loads[node.at].dtype == store.access.dtype);
    };
    const ScalarNode& node = program.statements[store.statement];
    return is_moved(store.statement) || (node.prim == Prim::Select && !reads[node.args[0]] &&
                                         is_moved(node.args[1]) && is_moved(node.args[2]));
  });
}

// How many tensors of integers of 8 bytes are computed with.
int64_t computed_integers(const LoopProgram& program) {
  return std::ranges::count(program.loads, c10::ScalarType::Long, &Access::dtype);
}

// Whole vectors and parts of them; of columns, those that lie side by side.
double loop_nanoseconds(const LoopProgram& program, const Counts& counts, int vector_bytes) {
  const int lanes = vectors_of(program, vector_bytes).lanes;
  const bool narrow = narrow_accesses(program) > 0;
  if (program.columns) {
    constexpr int kVectors = 4;
    const int64_t columns = program.sizes[program.kept() - 1];
    const int64_t group = kVectors * lanes;
    const double others = counts.all() / static_cast<double>(std::max<int64_t>(1, columns));
    const double parts = columns % group ? 1 : 0;
    return others * std::max(1, counts.passes()) *
           (static_cast<double>(columns / group) * 1.5 + parts * 12);
  }
  const int64_t inner = program.sizes.back();
  const bool parts = inner % lanes != 0;
  if (program.reduced) {
    const double part = parts ? (narrow ? 20 : 4) : 2;
    const double gone_through = counts.passes() + 1;
    double inner_rows = counts.all() / static_cast<double>(std::max<int64_t>(1, inner));
    return inner_rows * gone_through * part +
           (finds_extremes(program) ? 0.05 * counts.all() + 5 * counts.rows() : 0);
  }
  return program.rank() > 1 ? counts.rows() * (parts ? 14 : 8) : 0;
}

double aten_loop_nanoseconds(const LoopProgram& program, const Counts& counts) {
  const bool narrow = narrow_accesses(program) > 0;
  if (finds_places(program)) return (narrow ? 3.5 : 0.8) * counts.all();
  if (program.columns) return kAtenReduction + 0.1 * counts.all();
  if (program.reduced)
    return kAtenReduction + counts.rows() * (counts.passes() > 1 ? 20 : 3) +
           (finds_extremes(program) ? (narrow ? 0.2 : 0.01) * counts.all() : 0);
  return program.rank() > 1 ? counts.rows() * 3 : 0;
}

// A core computes while it waits for memory, but not all of that time.
double overlapped(double moved, double computed) {
  constexpr double kBesides = 0.25;
  return std::max(moved, computed) + kBesides * std::min(moved, computed);
}

const OpRecord* record_of(const Call& call) {
  return call.op.aten ? find_record(*call.op.aten) : nullptr;
}

// The record of an operator with a kernel of ATen's for each order of the channels; else null.
const OpRecord* reduced_by_channel(const Call& call) {
  const OpRecord* record = record_of(call);
  if (!record || !record->row || !reduces_rows(call, *record)) return nullptr;
  const Reduces dims = record->row.reduces;
  return dims == Reduces::Batch || dims == Reduces::Groups ? record : nullptr;
}

// Where channels are planes ATen sums up a batch element by element, in f64; gradients it does not.
double batch_nanoseconds(const Trace& trace, const Call& call) {
  const OpRecord* record = reduced_by_channel(call);
  const TensorType& input = type_of(trace, call.args.at(0).values.at(0));
  if (record->row.reduces == Reduces::Groups) return 0.15 * static_cast<double>(numel(input));
  if (!record->row.when) return 0;
  const bool by_plane = is_contiguous(input) && input.sizes.size() > 2;
  return static_cast<double>(numel(input)) * (by_plane ? 1.5 : 0.2);
}

double aten_kernel_nanoseconds(const Trace& trace, const Call& call, const LoopProgram& program) {
  const Counts counts(program);
  double computed = 0;
  for (int32_t i = 0; i < program.statements.size(); ++i)
    computed += of_statement_in_aten(program, counts, i) * counts.fewest(i);
  if (const OpRecord* record = record_of(call))
    computed = std::max(computed, record->aten_each * counts.all());
  const bool moves = only_moves(program);
  if (!moves)
    computed += kAtenLong * static_cast<double>(computed_integers(program)) * counts.all();
  const int64_t narrow = moves ? 0 : narrow_accesses(program);
  if (program.reduced)
    computed += (narrow ? 0.09 : 0) * counts.all();
  else
    computed += kAtenNarrow * static_cast<double>(narrow) * counts.all();
  if (program.reduced && !program.columns && counts.passes() > 1) computed += 0.2 * counts.all();
  const double strided =
      reduced_by_channel(call) ? batch_nanoseconds(trace, call) : aten_strides_nanoseconds(program);
  return kAtenWord * static_cast<double>(program.drawn_words()) +
         fresh_memory_nanoseconds(program) +
         overlapped(aten_memory_nanoseconds(program), computed) + strided +
         aten_loop_nanoseconds(program, counts);
}

int64_t bytes_of(const TensorType& type) {
  return numel(type) * static_cast<int64_t>(c10::elementSize(type.dtype));
}

}  // namespace

double kernel_nanoseconds(const LoopProgram& program, int vector_bytes) {
  const Counts counts(program);
  double computed = 0;
  for (int32_t i = 0; i < program.statements.size(); ++i)
    computed += of_statement(program, counts, i, vector_bytes) * counts.computed(i);
  for (const Store& store : program.stores)
    if (is_narrow_float(store.access.dtype) && !store.per_row) computed += kNarrow * counts.all();
  return kKernelCall + kOurWord * static_cast<double>(program.drawn_words()) +
         fresh_memory_nanoseconds(program) + overlapped(memory_nanoseconds(program), computed) +
         strides_nanoseconds(program) + loop_nanoseconds(program, counts, vector_bytes);
}

std::string refuse_on_cores(const LoopProgram& program) {
  constexpr int64_t kFewest = 4, kMuch = int64_t{1} << 20, kColumnsPerChunk = 64;
  if (!program.reduced || program.bytes() < kMuch) return "";
  const int64_t chunks = program.columns ? program.places() / kColumnsPerChunk : program.places();
  if (chunks >= kFewest) return "";
  return fmt::format("{} bytes are reduced to {} elements, which one core does by itself",
                     program.bytes(), program.places());
}

double aten_nanoseconds(const Trace& trace, const Call& call, const LoopProgram* program) {
  if (gives_view(call)) return 0;
  if (!call.body.empty() && !(program && !program->drawn.empty())) {
    double total = 0;
    for (const Call& inner : call.body) total += aten_nanoseconds(trace, inner);
    return total;
  }
  if (program) return kAtenCall + aten_kernel_nanoseconds(trace, call, *program);
  c10::SmallVector<ValueId, 8> inputs, outputs;
  double bytes = 0;
  for_each_value(call.args, [&](ValueId id) {
    if (std::ranges::find(inputs, id) != inputs.end()) return;
    inputs.push_back(id);
    bytes += static_cast<double>(bytes_of(type_of(trace, id)));
  });
  for_each_value(call.results, [&](ValueId id) {
    outputs.push_back(id);
    bytes += static_cast<double>(bytes_of(type_of(trace, id)));
  });
  const auto made = lower_region(trace, {&call, 1}, inputs, outputs);
  if (const auto* lowered = std::get_if<LoopProgram>(&made))
    return kAtenCall + aten_kernel_nanoseconds(trace, call, *lowered);
  return kAtenCall + kPerByte * bytes;
}

}  // namespace fulgurite
