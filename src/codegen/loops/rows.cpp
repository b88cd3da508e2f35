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

// By dimension, whether the argument `dim` names it.
std::vector<bool> given_dims(const Region& region, const Call& call, const Dims& sizes) {
  const auto rank = static_cast<int64_t>(sizes.size());
  const c10::IValue& value = argument(call, "dim");
  std::vector<int64_t> dims;
  if (value.isInt()) dims = {value.toInt()};
  if (value.isIntList()) dims = value.toIntVector();
  if (dims.empty()) {
    // To some operators an empty list is all dimensions, to others none.
    const TensorType& result = region.type(call.results.at(0).values.at(0));
    if (numel(result) != 1) throw Unsupported("a reduction over no dimension");
    return std::vector<bool>(rank, true);
  }
  std::vector<bool> reduced(rank, false);
  for (int64_t d : dims)
    if (rank > 0) reduced[c10::maybe_wrap_dim(d, rank)] = true;
  return reduced;
}

// One way to say it: a group of all channels or of one is none.
void set_groups(RowDims& dims, const Dims& sizes, const Call& call) {
  if (argument(call, "N").toInt() != sizes[0] || argument(call, "C").toInt() != sizes[1])
    throw Unsupported("other sizes than those of the argument");
  const int64_t groups = argument(call, "group").toInt();
  if (groups <= 0 || sizes[1] % groups != 0) throw Unsupported("groups of no whole channels");
  const int64_t group = sizes[1] / groups;
  dims.reduced[0] = false;
  dims.reduced[1] = group != 1;
  if (group != 1 && groups != 1) dims.group = group;
}

// The last dimension of a matrix before its vector, the last but one of a matrix behind it.
size_t factor_dim(const Region& region, const Producer& producer) {
  const RowRule& rule = producer.record->row;
  const Dims& matrix = input_of(region, producer).sizes;
  const Dims& vector = vector_of(region, producer).sizes;
  if (rule.over < rule.vector) return matrix.size() - 1;
  if (vector.size() < 2 || vector[vector.size() - 2] != 1)
    throw Unsupported("a product of several rows");
  return matrix.size() - 2;
}

}  // namespace

ValueId first_value(const Call& call) {
  ValueId first = kNoValue;
  for_each_value(call.results, [&](ValueId id) {
    if (first == kNoValue) first = id;
  });
  return first;
}

const TensorType& input_of(const Region& region, const Producer& producer) {
  return region.type(producer.call->args.at(producer.record->row.over).values.at(0));
}

const TensorType& vector_of(const Region& region, const Producer& producer) {
  return region.type(producer.call->args.at(producer.record->row.vector).values.at(0));
}

RowDims row_dims(const Region& region, const Producer& producer) {
  const Call& call = *producer.call;
  const RowRule& rule = producer.record->row;
  const Dims& sizes = input_of(region, producer).sizes;
  RowDims dims{std::vector<bool>(sizes.size(), true)};
  const bool of_parameters = rule.by_mask && !argument(call, "output_mask").toBoolList().get(0);
  switch (rule.reduces) {
    case Reduces::All:
      break;
    case Reduces::Trailing: {
      const auto trailing = argument(call, "normalized_shape").toIntVector().size();
      if (trailing > sizes.size()) throw Unsupported("rows of more dimensions than the argument");
      std::fill_n(dims.reduced.begin(), sizes.size() - trailing, false);
      if (of_parameters) dims.reduced.flip();
      break;
    }
    case Reduces::Dims:
      dims.reduced = given_dims(region, call, sizes);
      break;
    case Reduces::Batch:
    case Reduces::Groups:
      if (sizes.size() < 2) throw Unsupported("an argument without channels");
      if (rule.reduces == Reduces::Batch || of_parameters)
        dims.reduced[1] = false;
      else
        set_groups(dims, sizes, call);
      break;
    case Reduces::Factor:
      dims.reduced.flip();
      dims.reduced[factor_dim(region, producer)] = true;
      break;
  }
  return dims;
}

std::optional<Rows> rows_of(const Region& region) {
  if (region.rows.empty()) return std::nullopt;
  const Call& first = *region.rows.front();
  const Producer& producer = region.producers.at(first_value(first));
  return Rows{&first, first.args.at(producer.record->row.over).values.at(0),
              row_dims(region, producer)};
}

bool has_columns(const LoopProgram& program) {
  if (program.reduced == 0 || program.kept() == 0) return false;
  int columns = 0;
  for (const Access& load : program.loads) {
    // What is the same all over a row is read once.
    const auto inner = load.strides.begin() + program.kept();
    if (std::all_of(inner, load.strides.end(), [](int64_t stride) { return stride == 0; }))
      continue;
    const int64_t across = load.strides[program.kept() - 1];
    columns += across == 1;
    // Of what all rows have in common a column's element is as near as a row's.
    columns -= across != 0 && load.strides[program.rank() - 1] == 1;
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

namespace {

bool varies_in_row(const LoopProgram& program, const ScalarNode& node) {
  if (node.prim == Prim::Index) return node.at >= program.kept();
  if (node.prim != Prim::Load) return is_running(node.prim);
  const Dims& strides = program.loads[node.at].strides;
  return std::any_of(strides.begin() + program.kept(), strides.end(),
                     [](int64_t stride) { return stride != 0; });
}

}  // namespace

void refuse_order(const LoopProgram& program) {
  std::vector<bool> reduced, running, inner;  // by statement: made of such ones
  for (const ScalarNode& node : program.statements.nodes()) {
    const auto any = [&](const std::vector<bool>& known) {
      return std::ranges::any_of(node.args, [&](int32_t arg) { return arg >= 0 && known[arg]; });
    };
    reduced.push_back(node.prim == Prim::Reduced || any(reduced));
    running.push_back(is_running(node.prim) || any(running));
    inner.push_back(varies_in_row(program, node) || any(inner));
  }
  for (const Store& store : program.stores)
    if (store.per_row && inner[store.statement])
      throw Unsupported("a result of a row that differs along it");
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
