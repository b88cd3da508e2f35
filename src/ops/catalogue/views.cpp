// Views, copies of views and their gradients, joining and repeating.
#include <ATen/InferSize.h>
#include <ATen/MetaFunctions.h>
#include <ATen/TensorUtils.h>
#include <ATen/WrapDimUtils.h>

#include "ops/catalogue/element_rules.h"
#include "ops/catalogue/families.h"
#include "ops/catalogue/move_rules.h"
#include "ops/catalogue/rules.h"
#include "ops/meta/tensors.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;

Tensor reshaped(const Tensor& self, IntArrayRef sizes) {
  const auto strides = at::detail::computeStride(self.sizes(), self.strides(), sizes);
  TORCH_CHECK(strides.has_value(),
              "view size is not compatible with input tensor's size and stride (at least one "
              "dimension spans across two contiguous subspaces). Use .reshape(...) instead.");
  return view(self, sizes, *strides);
}

Tensor unsafe_view(const Tensor& self, IntArrayRef size) {
  return reshaped(self, at::infer_size_dv(size, self.numel()));
}

Tensor to_copy(const Tensor& self, std::optional<ScalarType> dtype,
               std::optional<at::Layout> layout, std::optional<at::Device>, std::optional<bool>,
               bool, std::optional<MemoryFormat> format) {
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(at::kStrided) == at::kStrided, "a result of layout ",
                              *layout, " cannot be inferred");
  return like(self, dtype.value_or(self.scalar_type()), format.value_or(MemoryFormat::Preserve));
}

// Gradients of views: zeros of the input's size with the gradient in its place.
Tensor select_backward(const Tensor& grad, IntArrayRef sizes, int64_t dim, int64_t index) {
  c10::maybe_wrap_dim(dim, static_cast<int64_t>(sizes.size()));
  return empty(sizes, grad.scalar_type());
}
Tensor slice_backward(const Tensor& grad, IntArrayRef sizes, int64_t dim, int64_t start,
                      int64_t end, int64_t step) {
  c10::maybe_wrap_dim(dim, static_cast<int64_t>(sizes.size()));
  return empty(sizes, grad.scalar_type());
}
Tensor diagonal_backward(const Tensor& grad, IntArrayRef sizes, int64_t, int64_t, int64_t) {
  return empty(sizes, grad.scalar_type());
}
Tensor unfold_backward(const Tensor& grad, IntArrayRef sizes, int64_t, int64_t, int64_t) {
  return empty(sizes, grad.scalar_type());
}

// A new dimension within the others is split off from their concatenation, as the kernel does.
Tensor stack(at::TensorList tensors, int64_t dim) {
  TORCH_CHECK(!tensors.empty(), "stack expects a non-empty TensorList");
  const int64_t at = c10::maybe_wrap_dim(dim, tensors[0].dim() + 1);
  for (size_t i = 1; i < tensors.size(); ++i)
    TORCH_CHECK(tensors[i].sizes() == tensors[0].sizes(),
                "stack expects each tensor to be equal size, but got ", tensors[0].sizes(),
                " at entry 0 and ", tensors[i].sizes(), " at entry ", i);
  if (at < tensors[0].dim()) {
    at::DimVector sizes(tensors[0].sizes());
    sizes.insert(sizes.begin() + at, static_cast<int64_t>(tensors.size()));
    return reshaped(at::meta::cat(at::ITensorListRef(tensors), at), sizes);
  }
  std::vector<Tensor> unsqueezed;
  unsqueezed.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    at::DimVector sizes(tensor.sizes()), strides(tensor.strides());
    sizes.push_back(1);
    strides.push_back(1);
    unsqueezed.push_back(view(tensor, sizes, strides));
  }
  return at::meta::cat(at::ITensorListRef(unsqueezed), at);
}

Tensor repeat(const Tensor& self, IntArrayRef repeats) {
  TORCH_CHECK(static_cast<int64_t>(repeats.size()) >= self.dim(),
              "Number of dimensions of repeat dims can not be smaller than number of dimensions "
              "of tensor");
  const size_t fresh = repeats.size() - self.dim();
  at::DimVector sizes(repeats);
  for (size_t i = fresh; i < sizes.size(); ++i) sizes[i] *= self.size(i - fresh);
  for (int64_t n : repeats)
    TORCH_CHECK(n >= 0, "Trying to create tensor with negative dimension ", n);
  return empty(sizes, self.scalar_type());
}

Tensor flip(const Tensor& self, IntArrayRef dims) {
  at::DimVector wrapped(dims);
  at::maybe_wrap_dims(wrapped, self.dim());
  std::sort(wrapped.begin(), wrapped.end());
  TORCH_CHECK(std::adjacent_find(wrapped.begin(), wrapped.end()) == wrapped.end(),
              "dim appears multiple times in the list of dims");
  return like(self);
}

Tensor part(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  at::DimVector sizes(self.sizes());
  sizes[dim] = length;
  return view(self, sizes, self.strides(), self.storage_offset() + start * self.stride(dim));
}

// Two parts joined in the other order.
Tensor roll_one(const Tensor& self, int64_t shift, int64_t dim) {
  if (self.numel() == 0) return like(self);
  TORCH_CHECK_INDEX(self.dim() > 0, "Dimension specified as ", dim,
                    " but tensor has no dimensions");
  dim = c10::maybe_wrap_dim(dim, self.dim());
  const int64_t size = self.size(dim);
  const int64_t start = ((size - shift) % size + size) % size;
  const std::array parts{part(self, dim, start, size - start), part(self, dim, 0, start)};
  return at::meta::cat(at::ITensorListRef(at::TensorList(parts)), dim);
}

Tensor roll(const Tensor& self, IntArrayRef shifts, IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1) return contiguous_like(self);
  TORCH_CHECK(shifts.size() == dims.size(),
              "shifts and dimensions must align. shifts: ", shifts.size(), ", dims:", dims.size());
  Tensor result = self;
  for (size_t i = 0; i < dims.size(); ++i) result = roll_one(result, shifts[i], dims[i]);
  return result;
}

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "_unsafe_view",
     .doc = "a view whose input is not used again",
     .move = {&fulgurite::reshaped},
     .meta = rule<&unsafe_view>},
    {.op = "_to_copy",
     .doc = "a copy of another dtype or device",
     .pointwise = elementwise_jumps(calls<&rules::cast>),
     .meta = rule<&to_copy>},
    {.op = "select_backward",
     .doc = "the gradient of select",
     .element = {&rules::zeros_with_index},
     .meta = rule<&select_backward>},
    {.op = "slice_backward",
     .doc = "the gradient of slice",
     .element = {&rules::zeros_with_range},
     .meta = rule<&slice_backward>},
    {.op = "diagonal_backward",
     .doc = "the gradient of diagonal",
     .element = {&rules::zeros_with_diagonal},
     .meta = rule<&diagonal_backward>},
    {.op = "unfold_backward", .doc = "the gradient of unfold", .meta = rule<&unfold_backward>},
    {.op = "stack",
     .doc = "joins along a new dimension",
     .element = {&rules::stacked},
     .meta = rule<&stack>},
    {.op = "repeat",
     .doc = "repeats along each dimension",
     .move = {&rules::repeated},
     .meta = rule<&repeat>},
    {.op = "flip", .doc = "reverses dimensions", .move = {&rules::flipped}, .meta = rule<&flip>},
    {.op = "roll",
     .doc = "shifts elements around dimensions",
     .element = {&rules::rolled},
     .meta = rule<&roll>},
}));

}  // namespace

constinit const std::span<const OpRecord> views = records;

}  // namespace fulgurite::catalogue_families
