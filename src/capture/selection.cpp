// x[i] where i is an integer that is being traced.
//
// Eager takes the integer out of its tensor and makes a view at that place, which no type can
// describe. It is captured as x.index(i), a copy of the same elements, and refused where the
// program could tell the two apart: where it is written to, or what it was taken from, or where it
// leaves the program.
#include "capture/state.h"

#include <ATen/ops/index.h>

namespace fulgurite {
namespace {

bool is_select(const c10::OperatorHandle& op) {
  static const c10::OperatorName select{"aten::select", "int"};
  return op.operator_name() == select;
}

bool is_same(const LanguageHooks::Place& a, const LanguageHooks::Place& b) {
  return a.code == b.code && a.instruction == b.instruction;
}

// The geometry of x.select(dim, ...) but for its place in memory.
bool has_geometry_of_selection(const at::Tensor& result, const at::Tensor& x, int64_t dim) {
  std::vector<int64_t> sizes = x.sizes().vec(), strides = x.strides().vec();
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  return result.sizes() == sizes && result.strides() == strides;
}

}  // namespace

bool Tracer::State::begin_selection(const at::Tensor& index) {
  const auto& hooks = language_hooks();
  Selecting begun{index, {}, std::nullopt};
  const c10::ScalarType dtype = index.scalar_type();
  // Operators take indexes of these dtypes alone.
  const bool integer = dtype == at::kLong || dtype == at::kInt;
  if (frame || selecting || index.dim() != 0 || !integer || !as_trace(index)) return false;
  if (!hooks.indexes || !hooks.indexes(begun.place)) return false;
  begun.refusal = refusal_of(
      "a tensor is indexed with an integer that is only being traced, as a view",
      "index with a list of it (x[i[None]]) or torch.index_select, which copy, or give the "
      "function a number of Python");
  selecting = std::move(begun);
  return true;
}

void Tracer::State::refuse_selection(const Unsupported& why) {
  if (!refusal) refusal = why;
  raise(why);
}

void Tracer::State::end_selection(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Selecting begun = *std::exchange(selecting, std::nullopt);
  LanguageHooks::Place here;
  const bool goes_on =
      is_select(op) && language_hooks().indexes(here) && is_same(here, begun.place);
  if (!goes_on) refuse_selection(*begun.refusal);
  const at::Tensor x = torch::jit::peek(*stack, 0, 3).toTensor();
  // Such a view has a history all the same.
  if (x.requires_grad() && !at::GradMode::is_enabled()) refuse_selection(*begun.refusal);
  const int64_t dim = c10::maybe_wrap_dim(torch::jit::peek(*stack, 1, 3).toInt(), x.dim());
  c10::List<std::optional<at::Tensor>> indices;
  for (int64_t i = 0; i < dim; ++i) indices.push_back(std::nullopt);
  indices.push_back(begun.index);
  const at::Tensor result = at::index(x, indices);
  if (!has_geometry_of_selection(result, x, dim)) refuse_selection(*begun.refusal);
  const auto storage = [&](const at::Tensor& tensor) {
    return storage_id(as_trace(to_trace(tensor))->meta().storage());
  };
  selections.push_back({storage(result), storage(x), *begun.refusal});
  torch::jit::drop(*stack, 3);
  stack->emplace_back(result);
}

void Tracer::State::note_written_selection(StorageId storage) {
  for (Selection& one : selections) one.written |= storage == one.copy || storage == one.source;
}

bool Tracer::State::is_selection(const at::Tensor& tensor) {
  const TraceTensorImpl* traced = as_trace(tensor);
  if (!traced || selections.empty()) return false;
  const StorageId storage = storage_id(traced->meta().storage());
  return std::ranges::any_of(selections, [&](const Selection& one) { return one.copy == storage; });
}

void Tracer::State::settle_selections() {
  if (selecting) raise(*selecting->refusal);
  for (const Selection& one : selections) {
    const auto leaves = [&](ValueId id) { return trace.values[id].type.storage == one.copy; };
    if (one.written || std::ranges::any_of(trace.outputs, leaves)) raise(one.refusal);
  }
}

void refuse_place_of_selection(const at::Tensor& tensor) {
  Tracer::State* state = active_state();
  if (!state || !state->is_selection(tensor)) return;
  state->tracer->refuse("asks where a tensor lies that was selected by an integer that is traced",
                        "index with a number of Python");
}

}  // namespace fulgurite
