#include "codegen/loops/rows.h"

#include <algorithm>

#include <c10/core/WrapDimMinimal.h>

#include "base/error.h"

namespace fulgurite {
namespace {

const c10::IValue& argument(const Call& call, const char* name) {
  const auto index = call.op.aten->schema().argumentIndexWithName(name);
  require(index.has_value(), "{} has no argument {}", call.op.name(), name);
  return call.args.at(*index).constant;
}

std::vector<int64_t> given_dims(const c10::IValue& value) {
  if (value.isNone()) return {};
  if (value.isInt()) return {value.toInt()};
  return value.toIntVector();
}

}  // namespace

const TensorType& input_of(const Region& region, const Call& call) {
  return region.type(call.args.at(0).values.at(0));
}

std::vector<bool> reduced_dims(const Region& region, const Producer& producer) {
  const Call& call = *producer.call;
  const auto rank = static_cast<int64_t>(input_of(region, call).sizes.size());
  std::vector<bool> reduced(rank, true);
  if (producer.record->row.reduces == Reduces::Trailing) {
    const auto trailing = argument(call, "normalized_shape").toIntVector().size();
    if (trailing > reduced.size()) throw Unsupported("rows of more dimensions than the argument");
    std::fill(reduced.begin(), reduced.end() - static_cast<std::ptrdiff_t>(trailing), false);
  }
  if (producer.record->row.reduces == Reduces::Dims) {
    const std::vector<int64_t> dims = given_dims(argument(call, "dim"));
    if (dims.empty()) {
      // To some operators an empty list is all dimensions, to others none.
      const TensorType& result = region.type(call.results.at(0).values.at(0));
      if (numel(result) != 1) throw Unsupported("a reduction over no dimension");
      return reduced;
    }
    reduced.assign(rank, false);
    for (int64_t d : dims)
      if (rank > 0) reduced[c10::maybe_wrap_dim(d, rank)] = true;
  }
  return reduced;
}

std::optional<Rows> rows_of(const Region& region) {
  if (region.rows.empty()) return std::nullopt;
  const Call& first = *region.rows.front();
  const Producer& producer = region.producers.at(first.results.at(0).values.at(0));
  return Rows{&first, first.args.at(0).values.at(0), reduced_dims(region, producer)};
}

bool has_columns(const LoopProgram& program) {
  if (program.reduced == 0 || program.kept() == 0) return false;
  int columns = 0;
  for (const Access& load : program.loads) {
    columns += load.strides[program.kept() - 1] == 1;
    columns -= load.strides[program.rank() - 1] == 1;
  }
  return columns > 0;
}

void refuse_empty_rows(const LoopProgram& program) {
  if (program.places() == 0 || program.reduced == 0) return;
  const auto kept = program.sizes.begin() + program.kept();
  if (std::find(kept, program.sizes.end(), 0) == program.sizes.end()) return;
  for (const Access& load : program.loads)
    if (program.reduced > 1 || load.strides.back() == 0) throw Unsupported("rows without elements");
}

void refuse_order(const LoopProgram& program) {
  std::vector<bool> reduced, running;  // by statement: made of such ones
  for (const ScalarNode& node : program.statements.nodes()) {
    const auto any = [&](const std::vector<bool>& known) {
      return std::ranges::any_of(node.args, [&](int32_t arg) { return arg >= 0 && known[arg]; });
    };
    reduced.push_back(node.prim == Prim::Reduced || any(reduced));
    running.push_back(is_running(node.prim) || any(running));
  }
  for (int32_t check : program.statements.checks)
    if (reduced[check]) throw Unsupported("a check of what reductions give");
  for (const Reduction& r : program.reductions)
    if (running[r.statement]) throw Unsupported("a reduction of running sums");
  const bool nested = program.reduced > 1 && !program.columns;
  if (nested && std::ranges::find(running, true) != running.end())
    throw Unsupported("running sums over loops within each other");
}

void order_passes(LoopProgram& program) {
  // The pass after which a statement can be computed; -1 for before the first.
  std::vector<int32_t> known;
  std::vector<int32_t> pass(program.reductions.size(), 0);
  for (int32_t i = 0; i < program.statements.size(); ++i) {
    const ScalarNode& node = program.statements[i];
    int32_t after = -1;
    for (int32_t arg : node.args)
      if (arg >= 0) after = std::max(after, known[arg]);
    if (node.prim == Prim::Reduced) {
      pass[node.at] = known[program.reductions[node.at].statement] + 1;
      after = pass[node.at];
    }
    known.push_back(after);
  }
  for (size_t i = 0; i < program.reductions.size(); ++i) program.reductions[i].pass = pass[i];
}

}  // namespace fulgurite
