#include "passes/functionalise/placement.h"

#include <algorithm>
#include <numeric>

#include <ATen/TensorUtils.h>

namespace fulgurite {
namespace {

using Kind = ViewStep::Kind;

struct Dim {
  int64_t index, size, stride;
};
using DimList = c10::SmallVector<Dim, 5>;

// The dimensions of more than one element, those of the largest stride first.
DimList by_stride(const TensorType& type) {
  DimList dims;
  for (size_t i = 0; i < type.sizes.size(); ++i)
    if (type.sizes[i] > 1)
      dims.push_back({static_cast<int64_t>(i), type.sizes[i], type.strides[i]});
  std::stable_sort(dims.begin(), dims.end(),
                   [](const Dim& a, const Dim& b) { return a.stride > b.stride; });
  return dims;
}

// What a view takes of one dimension of its base.
struct Taken {
  int64_t start = 0;
  int64_t length = 1, step = 1;
  int64_t view_dim = -1;  // where it goes; -1: this index alone, and the dimension is gone
};
using TakenList = c10::SmallVector<Taken, 5>;

// The index of the view's first element in every dimension of the base.
bool find_start(const TensorType& base, const DimList& dims, int64_t distance, TakenList& taken) {
  if (distance < 0) return false;
  for (const Dim& dim : dims) {
    taken[dim.index].start = distance / dim.stride;
    distance %= dim.stride;
    if (taken[dim.index].start >= dim.size) return false;
  }
  return distance == 0;
}

// Which dimension of the base each dimension of the view runs along, at most one each.
bool match(const TensorType& base, const DimList& dims, const TensorType& view, TakenList& taken) {
  size_t at = 0;
  for (const Dim& dim : by_stride(view)) {
    if (dim.stride == 0) continue;
    while (at < dims.size() && dims[at].stride > dim.stride) ++at;
    if (at == dims.size() || dim.stride % dims[at].stride != 0) return false;
    Taken& t = taken[dims[at].index];
    t.view_dim = dim.index;
    t.length = dim.size;
    t.step = dim.stride / dims[at].stride;
    if (t.start + (t.length - 1) * t.step >= dims[at].size) return false;
    ++at;
  }
  // Dimensions of one element: one that has the stride of a dimension not used so far is a slice.
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] != 1) continue;
    for (size_t k = 0; k < taken.size(); ++k) {
      if (taken[k].view_dim >= 0 || base.strides[k] != view.strides[i]) continue;
      taken[k].view_dim = static_cast<int64_t>(i);
      break;
    }
  }
  return true;
}

ViewStep step_of(Kind kind, int64_t dim) {
  ViewStep step;
  step.kind = kind;
  step.dim = dim;
  return step;
}

ViewStep step_to(Kind kind, Dims dims) {
  ViewStep step;
  step.kind = kind;
  step.dims = std::move(dims);
  return step;
}

void add_selections(const TensorType& base, const TakenList& taken, ViewSteps& steps) {
  for (size_t i = taken.size(); i-- > 0;) {
    const Taken& t = taken[i];
    const auto dim = static_cast<int64_t>(i);
    if (t.view_dim < 0) {
      steps.push_back(step_of(Kind::Select, dim));
      steps.back().start = t.start;
    } else if (t.length != base.sizes[i]) {
      steps.push_back(step_of(Kind::Slice, dim));
      steps.back().start = t.start;
      steps.back().stop = t.start + (t.length - 1) * t.step + 1;
      steps.back().step = t.step;
    }
  }
}

void add_arrangement(const TensorType& view, const TakenList& taken, ViewSteps& steps) {
  Dims kept;  // by dimension of the base: where in the view it goes
  for (const Taken& t : taken)
    if (t.view_dim >= 0) kept.push_back(t.view_dim);
  Dims order(kept.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return kept[a] < kept[b]; });
  if (!std::is_sorted(order.begin(), order.end())) steps.push_back(step_to(Kind::Permute, order));
  bool expands = false;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    const auto dim = static_cast<int64_t>(i);
    if (std::find(kept.begin(), kept.end(), dim) != kept.end()) continue;
    steps.push_back(step_of(Kind::Unsqueeze, dim));
    expands |= view.sizes[i] != 1;
  }
  if (expands) steps.push_back(step_to(Kind::Expand, view.sizes));
}

// What `steps` lead to must be the view itself; strides of dimensions of size one are mended.
bool arrive(TensorType type, const TensorType& view, ViewSteps& steps) {
  for (const ViewStep& step : steps) {
    auto next = after(type, step);
    if (!next) return false;
    type = std::move(*next);
  }
  if (type.sizes != view.sizes || type.offset != view.offset) return false;
  if (type.strides == view.strides) return true;
  for (size_t i = 0; i < view.sizes.size(); ++i)
    if (view.sizes[i] != 1 && type.strides[i] != view.strides[i]) return false;
  steps.push_back(step_to(Kind::Restride, view.strides));
  return true;
}

// By at most one slice or index of each dimension of the base.
bool pick(const TensorType& base, const TensorType& view, ViewSteps& steps) {
  const DimList dims = by_stride(base);
  TakenList taken(base.sizes.size());
  if (!find_start(base, dims, view.offset - base.offset, taken)) return false;
  if (!match(base, dims, view, taken)) return false;
  add_selections(base, taken, steps);
  add_arrangement(view, taken, steps);
  return true;
}

// Runs of dimensions of the base without gaps between them, as one dimension each.
DimList merged(const DimList& dims) {
  DimList blocks;
  for (const Dim& dim : dims) {
    if (!blocks.empty() && blocks.back().stride == dim.size * dim.stride) {
      blocks.back().size *= dim.size;
      blocks.back().stride = dim.stride;
    } else {
      blocks.push_back(dim);
    }
  }
  return blocks;
}

// The sizes of the base seen so that each dimension of the view runs along one of its own.
std::optional<Dims> factors(const DimList& blocks, const DimList& view) {
  Dims sizes;
  size_t at = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Dim& block = blocks[i];
    int64_t rest = block.size;
    // All dimensions of the view that run along this block but the innermost need a factor each.
    for (; at < view.size() && view[at].stride >= block.stride; ++at) {
      const bool innermost = at + 1 == view.size() || view[at + 1].stride < block.stride;
      if (innermost) continue;
      if (view[at].stride % block.stride != 0) return {};
      const int64_t step = view[at].stride / block.stride;
      if (rest % step != 0) return {};
      sizes.push_back(rest / step);
      rest = step;
    }
    sizes.push_back(rest);
  }
  return sizes;
}

// The dimensions ordered by stride and cut anew, before `pick`.
bool regroup(const TensorType& base, const TensorType& view, ViewSteps& steps) {
  const DimList dims = by_stride(base);
  auto sizes = factors(merged(dims), by_stride(view));
  if (!sizes) return false;
  Dims order;
  for (const Dim& dim : dims) order.push_back(dim.index);
  for (size_t i = 0; i < base.sizes.size(); ++i)
    if (base.sizes[i] <= 1) order.push_back(static_cast<int64_t>(i));
  if (!std::is_sorted(dims.begin(), dims.end(),
                      [](const Dim& a, const Dim& b) { return a.index < b.index; }))
    steps.push_back(step_to(Kind::Permute, order));
  steps.push_back(step_to(Kind::View, *sizes));
  TensorType cut = base;
  for (const ViewStep& step : steps) {
    auto next = after(cut, step);
    if (!next) return false;
    cut = std::move(*next);
  }
  return pick(cut, view, steps);
}

void erase(Dims& dims, int64_t i) { dims.erase(dims.begin() + i); }

std::optional<TensorType> viewed(TensorType type, const Dims& sizes) {
  const at::DimVector wanted(sizes.begin(), sizes.end());
  auto strides = at::detail::computeStride(type.sizes, type.strides, wanted);
  if (!strides) return {};
  type.sizes = sizes;
  type.strides.assign(strides->begin(), strides->end());
  return type;
}

TensorType permuted(const TensorType& base, const Dims& order) {
  TensorType type = base;
  for (size_t i = 0; i < order.size(); ++i) {
    type.sizes[i] = base.sizes[order[i]];
    type.strides[i] = base.strides[order[i]];
  }
  return type;
}

}  // namespace

std::optional<TensorType> after(const TensorType& base, const ViewStep& step) {
  TensorType type = base;
  const auto dim = step.dim;
  switch (step.kind) {
    case Kind::View:
      return viewed(base, step.dims);
    case Kind::Permute:
      return permuted(base, step.dims);
    case Kind::Select:
      type.offset += step.start * type.strides[dim];
      erase(type.sizes, dim);
      erase(type.strides, dim);
      return type;
    case Kind::Slice:
      type.offset += step.start * type.strides[dim];
      type.sizes[dim] = (step.stop - step.start + step.step - 1) / step.step;
      type.strides[dim] *= step.step;
      return type;
    case Kind::Unsqueeze: {
      const bool last = dim == static_cast<int64_t>(type.sizes.size());
      const int64_t stride = last ? 1 : type.sizes[dim] * type.strides[dim];
      type.sizes.insert(type.sizes.begin() + dim, 1);
      type.strides.insert(type.strides.begin() + dim, stride);
      return type;
    }
    case Kind::Expand:
      for (size_t i = 0; i < type.sizes.size(); ++i)
        if (type.sizes[i] != step.dims[i]) type.strides[i] = 0;
      type.sizes = step.dims;
      return type;
    case Kind::Restride:
      type.strides = step.dims;
      return type;
  }
  return {};
}

std::optional<ViewSteps> place(const TensorType& base, const TensorType& view) {
  if (numel(base) == 0 || numel(view) == 0 || !is_injective(base)) return {};
  ViewSteps steps;
  if (pick(base, view, steps) && arrive(base, view, steps)) return steps;
  steps.clear();
  if (regroup(base, view, steps) && arrive(base, view, steps)) return steps;
  return {};
}

bool same_geometry(const TensorType& a, const TensorType& b) {
  return a.offset == b.offset && a.sizes == b.sizes && a.strides == b.strides;
}

}  // namespace fulgurite
