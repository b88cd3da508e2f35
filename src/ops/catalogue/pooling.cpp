// Pooling, padding, rearranging and sampling of images and volumes.
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/native/Pool.h>
#include <ATen/native/im2col_shape_check.h>

#include "ops/catalogue/element_rules.h"
#include "ops/catalogue/families.h"
#include "ops/meta/tensors.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;
using Pair = std::tuple<Tensor, Tensor>;

// Adaptive averages.

template <int64_t dims>
Tensor adaptive_avg_pool(const Tensor& self, IntArrayRef output_size) {
  TORCH_CHECK(static_cast<int64_t>(output_size.size()) == dims, "adaptive_avg_pool", dims,
              "d: output_size must be ", dims);
  const int64_t n = self.dim();
  TORCH_CHECK(n == dims + 1 || n == dims + 2, "adaptive_avg_pool", dims, "d(): Expected ", dims + 1,
              "D or ", dims + 2, "D tensor, but got ", self.sizes());
  for (int64_t i = n - dims; i < n; ++i)
    TORCH_CHECK(self.size(i) > 0, "adaptive_avg_pool", dims,
                "d(): Expected input to have non-zero size for non-batch dimensions, but input "
                "has sizes ",
                self.sizes(), " with dimension ", i, " being empty");
  at::DimVector sizes(self.sizes().slice(0, n - dims));
  sizes.append(output_size.begin(), output_size.end());
  return empty(sizes, self.scalar_type(),
               dims == 2 ? self.suggest_memory_format() : MemoryFormat::Contiguous);
}
Tensor adaptive_avg_pool2d_backward(const Tensor& grad, const Tensor& self) {
  TORCH_CHECK(grad.dim() == self.dim(),
              "adaptive_avg_pool2d_backward: grad_output and input must "
              "have the same number of dimensions");
  return like(self, self.suggest_memory_format());
}
Tensor adaptive_avg_pool3d_backward(const Tensor& grad, const Tensor& self) {
  TORCH_CHECK(grad.dim() == self.dim(),
              "adaptive_avg_pool3d_backward: grad_output and input must "
              "have the same number of dimensions");
  return contiguous_like(self);
}

// Maxima of volumes.

struct Volume {
  std::array<int64_t, 3> kernel, stride, padding, dilation;
};
std::array<int64_t, 3> triple(IntArrayRef given, const char* name) {
  TORCH_CHECK(given.size() == 1 || given.size() == 3, "max_pool3d: ", name,
              " must either be a single int, or a tuple of three ints");
  return given.size() == 1 ? std::array{given[0], given[0], given[0]}
                           : std::array{given[0], given[1], given[2]};
}
Volume volume(IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation) {
  return {triple(kernel, "kernel_size"), triple(stride.empty() ? kernel : stride, "stride"),
          triple(padding, "padding"), triple(dilation, "dilation")};
}
Pair max_pool3d(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                IntArrayRef dilation, bool ceil_mode) {
  const Volume v = volume(kernel, stride, padding, dilation);
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5,
              "max_pool3d_with_indices: Expected 4D or 5D "
              "tensor for input, but got: ",
              self.sizes());
  at::DimVector sizes(self.sizes());
  std::array<int64_t, 3> in, out;
  for (int i = 0; i < 3; ++i) {
    in[i] = self.size(i - 3);
    out[i] = at::native::pooling_output_shape<int64_t>(in[i], v.kernel[i], v.padding[i],
                                                       v.stride[i], v.dilation[i], ceil_mode);
    sizes[sizes.size() - 3 + i] = out[i];
  }
  at::native::pool3d_shape_check(self, self.size(-4), v.kernel[0], v.kernel[1], v.kernel[2],
                                 v.stride[0], v.stride[1], v.stride[2], v.padding[0], v.padding[1],
                                 v.padding[2], v.dilation[0], v.dilation[1], v.dilation[2], in[0],
                                 in[1], in[2], out[0], out[1], out[2], "max_pool3d_with_indices()");
  const MemoryFormat format = self.suggest_memory_format();
  TORCH_CHECK(format == MemoryFormat::Contiguous || format == MemoryFormat::ChannelsLast3d,
              "Unsupported memory format. Supports only ChannelsLast3d, Contiguous");
  return {empty(sizes, self.scalar_type(), format), empty(sizes, at::kLong, format)};
}
Tensor max_pool3d_backward(const Tensor& grad, const Tensor& self, IntArrayRef kernel,
                           IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool,
                           const Tensor& indices) {
  volume(kernel, stride, padding, dilation);
  TORCH_CHECK(grad.sizes() == indices.sizes(),
              "max_pool3d_with_indices_backward: the gradient and the indices differ in size");
  return like(self, self.dim() == 5 ? self.suggest_memory_format() : MemoryFormat::Contiguous);
}

// The inverse of taking maxima.

Tensor max_unpool2d(const Tensor& self, const Tensor& indices, IntArrayRef output_size) {
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(output_size.size() == 2,
              "There should be exactly two elements (height, width) in output_size, but got ",
              output_size.size(), " elements.");
  TORCH_CHECK(self.dim() == 3 || self.dim() == 4,
              "Input to max_unpooling2d should be a 3d or 4d "
              "Tensor, but got a tensor with ",
              self.dim(), " dimensions.");
  TORCH_CHECK(self.sizes() == indices.sizes(),
              "Expected shape of indices to be same as that of "
              "the input tensor (",
              self.sizes(), ") but got indices tensor with shape: ", indices.sizes());
  for (int64_t i = 1; i < self.dim(); ++i)
    TORCH_CHECK(self.size(i) > 0,
                "max_unpooling2d(): Expected input to have non-zero size for "
                "non-batch dimensions, but got ",
                self.sizes(), " with dimension ", i, " being empty.");
  at::DimVector sizes(self.sizes().slice(0, self.dim() - 2));
  sizes.append(output_size.begin(), output_size.end());
  return empty(sizes, self.scalar_type(), self.suggest_memory_format());
}
Tensor max_unpool3d(const Tensor& self, const Tensor& indices, IntArrayRef output_size,
                    IntArrayRef stride, IntArrayRef padding) {
  TORCH_CHECK(output_size.size() == 3 && stride.size() == 3 && padding.size() == 3,
              "There should be exactly three elements (depth, height, width) in output_size, "
              "stride and padding");
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5,
              "Input to max_unpooling3d should be a 4d or 5d "
              "Tensor, but got a tensor with ",
              self.dim(), " dimensions.");
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(self.sizes() == indices.sizes(),
              "Expected shape of indices to be same as that of "
              "the input tensor (",
              self.sizes(), ") but got indices tensor with shape: ", indices.sizes());
  TORCH_CHECK(stride[0] > 0 && stride[1] > 0 && stride[2] > 0,
              "strides should be greater than "
              "zero, but got stride: ",
              stride);
  at::DimVector sizes(self.sizes().slice(0, self.dim() - 3));
  sizes.append(output_size.begin(), output_size.end());
  return empty(sizes, self.scalar_type());
}

// Padding of the last dimensions.

template <int64_t dims>
Tensor padded_backward(const Tensor& grad, const Tensor& self, IntArrayRef padding) {
  TORCH_CHECK(static_cast<int64_t>(padding.size()) == 2 * dims, "padding size is expected to be ",
              2 * dims);
  for (int64_t i = 1; i <= dims; ++i) {
    const int64_t n = self.size(-i) + padding[2 * i - 2] + padding[2 * i - 1];
    TORCH_CHECK(grad.size(-i) == n, "gradOutput size unexpected at dimension ", -i,
                ". Expected: ", n, ", Got: ", grad.size(-i));
  }
  return like(self, self.suggest_memory_format());
}
Tensor reflection_pad2d(const Tensor& self, IntArrayRef padding) {
  TORCH_CHECK(padding.size() == 4, "padding size is expected to be 4");
  const int64_t n = self.dim();
  const bool valid =
      self.size(-1) != 0 && self.size(-2) != 0 && (n == 3 || n == 4) && self.size(-3) != 0;
  TORCH_CHECK(valid,
              "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
              "non-zero dimensions for input, but got: ",
              self.sizes());
  at::DimVector sizes(self.sizes());
  for (int64_t i = 1; i <= 2; ++i) {
    const int64_t low = padding[2 * i - 2], high = padding[2 * i - 1];
    TORCH_CHECK(low < self.size(-i) && high < self.size(-i),
                "Argument #4: Padding size should be less than the corresponding input dimension, "
                "but got: padding (",
                low, ", ", high, ") at dimension ", -i, " of input ", self.sizes());
    sizes[n - i] += low + high;
  }
  TORCH_CHECK(sizes[n - 1] >= 1 || sizes[n - 2] >= 1, "input (", self.sizes(),
              ") is too small for padding ", padding);
  return empty(sizes, self.scalar_type(), self.suggest_memory_format());
}

// Rearrangements.

Tensor im2col(const Tensor& self, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding,
              IntArrayRef stride) {
  TORCH_CHECK(
      kernel.size() == 2 && dilation.size() == 2 && padding.size() == 2 && stride.size() == 2,
      "It is expected that kernel_size, dilation, padding and stride equal to 2");
  at::native::im2col_shape_check(self, Tensor(), kernel[0], kernel[1], dilation[0], dilation[1],
                                 padding[0], padding[1], stride[0], stride[1]);
  int64_t blocks = 1;
  for (int i = 0; i < 2; ++i)
    blocks *=
        (self.size(i - 2) + 2 * padding[i] - (dilation[i] * (kernel[i] - 1) + 1)) / stride[i] + 1;
  const int64_t planes = self.size(-3) * kernel[0] * kernel[1];
  return self.dim() == 3 ? empty({planes, blocks}, self.scalar_type())
                         : empty({self.size(0), planes, blocks}, self.scalar_type());
}
Tensor col2im(const Tensor& self, IntArrayRef output_size, IntArrayRef kernel, IntArrayRef dilation,
              IntArrayRef padding, IntArrayRef stride) {
  TORCH_CHECK(output_size.size() == 2 && kernel.size() == 2 && dilation.size() == 2 &&
                  padding.size() == 2 && stride.size() == 2,
              "It is expected that output_size, kernel_size, dilation, padding and stride equal "
              "to 2");
  at::native::col2im_shape_check(self, Tensor(), output_size[0], output_size[1], kernel[0],
                                 kernel[1], dilation[0], dilation[1], padding[0], padding[1],
                                 stride[0], stride[1]);
  const int64_t planes = self.size(-2) / (kernel[0] * kernel[1]);
  return self.dim() == 2
             ? empty({planes, output_size[0], output_size[1]}, self.scalar_type())
             : empty({self.size(0), planes, output_size[0], output_size[1]}, self.scalar_type());
}
Tensor pixel_shuffle(const Tensor& self, int64_t factor) {
  TORCH_CHECK(self.dim() >= 3,
              "pixel_shuffle expects input to have at least 3 dimensions, but got "
              "input with ",
              self.dim(), " dimension(s)");
  TORCH_CHECK(factor > 0, "pixel_shuffle expects a positive upscale_factor, but got ", factor);
  TORCH_CHECK(self.size(-3) % (factor * factor) == 0,
              "pixel_shuffle expects its input's 'channel' "
              "dimension to be divisible by the square of upscale_factor, but input.size(-3)=",
              self.size(-3), " is not divisible by ", factor * factor);
  at::DimVector sizes(self.sizes());
  const size_t n = sizes.size();
  sizes[n - 3] /= factor * factor;
  sizes[n - 2] *= factor;
  sizes[n - 1] *= factor;
  return self.numel() == 0 ? empty(sizes, self.scalar_type())
                           : empty(sizes, self.scalar_type(), self.suggest_memory_format());
}
Tensor pixel_unshuffle(const Tensor& self, int64_t factor) {
  TORCH_CHECK(self.dim() >= 3,
              "pixel_unshuffle expects input to have at least 3 dimensions, but "
              "got input with ",
              self.dim(), " dimension(s)");
  TORCH_CHECK(factor > 0, "pixel_unshuffle expects a positive downscale_factor, but got ", factor);
  TORCH_CHECK(self.size(-2) % factor == 0 && self.size(-1) % factor == 0,
              "pixel_unshuffle expects height and width to be divisible by downscale_factor, but "
              "got ",
              self.sizes(), " and ", factor);
  if (self.numel() == 0) return like(self);  // of the input's own size, as the kernel gives
  at::DimVector sizes(self.sizes());
  const size_t n = sizes.size();
  sizes[n - 3] *= factor * factor;
  sizes[n - 2] /= factor;
  sizes[n - 1] /= factor;
  return empty(sizes, self.scalar_type(), self.suggest_memory_format());
}
Tensor channel_shuffle(const Tensor& self, int64_t groups) {
  TORCH_CHECK(self.dim() > 2,
              "channel_shuffle expects input with > 2 dims, but got input with "
              "sizes ",
              self.sizes());
  TORCH_CHECK(groups > 0 && self.size(1) % groups == 0,
              "Number of channels must be divisible by groups. Got ", self.size(1),
              " channels and ", groups, " groups.");
  return like(self, self.suggest_memory_format());
}

// Sampling at the points of a grid.

void check_grid(const Tensor& input, const Tensor& grid, int64_t interpolation) {
  at::native::check_grid_sampler_common(input, grid);
  if (input.dim() == 5)
    at::native::check_grid_sampler_3d(input, grid, interpolation);
  else
    at::native::check_grid_sampler_2d(input, grid);
}
Tensor grid_sampler(const Tensor& input, const Tensor& grid, int64_t interpolation, int64_t, bool) {
  check_grid(input, grid, interpolation);
  at::DimVector sizes(input.sizes().slice(0, 2));
  const IntArrayRef points = grid.sizes().slice(1, grid.dim() - 2);
  sizes.append(points.begin(), points.end());
  return empty(sizes, input.scalar_type());
}
Pair grid_sampler_backward(const Tensor& grad, const Tensor& input, const Tensor& grid,
                           int64_t interpolation, int64_t, bool, std::array<bool, 2> mask) {
  check_grid(input, grid, interpolation);
  return {mask[0] ? contiguous_like(input) : Tensor(), contiguous_like(grid)};
}

Tensor fractional_max_pool3d_backward(const Tensor&, const Tensor& self, IntArrayRef, IntArrayRef,
                                      const Tensor&) {
  return contiguous_like(self);
}

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "max_pool1d", .doc = "the largest of each window", .checks_data = true},
    {.op = "_adaptive_avg_pool2d",
     .doc = "means of as many windows as are asked for",
     .meta = rule<&adaptive_avg_pool<2>>},
    {.op = "_adaptive_avg_pool3d",
     .doc = "means of as many windows as are asked for",
     .meta = rule<&adaptive_avg_pool<3>>},
    {.op = "_adaptive_avg_pool2d_backward",
     .doc = "the gradient of _adaptive_avg_pool2d",
     .meta = rule<&adaptive_avg_pool2d_backward>},
    {.op = "_adaptive_avg_pool3d_backward",
     .doc = "the gradient of _adaptive_avg_pool3d",
     .meta = rule<&adaptive_avg_pool3d_backward>},
    {.op = "max_pool3d_with_indices",
     .doc = "maxima of windows and where they are",
     .meta = rule<&max_pool3d>},
    {.op = "max_pool3d_with_indices_backward",
     .doc = "the gradient of max_pool3d_with_indices",
     .meta = rule<&max_pool3d_backward>},
    {.op = "fractional_max_pool3d_backward",
     .doc = "the gradient of fractional_max_pool3d",
     .meta = rule<&fractional_max_pool3d_backward>},
    {.op = "max_unpool2d", .doc = "puts maxima back", .meta = rule<&max_unpool2d>},
    {.op = "max_unpool3d", .doc = "puts maxima back", .meta = rule<&max_unpool3d>},
    {.op = "reflection_pad2d",
     .doc = "mirrors images at their borders",
     .element = {&rules::reflected},
     .meta = rule<&reflection_pad2d>},
    {.op = "reflection_pad2d_backward",
     .doc = "the gradient of reflection_pad2d",
     .meta = rule<&padded_backward<2>>},
    {.op = "replication_pad2d_backward",
     .doc = "the gradient of replication_pad2d",
     .meta = rule<&padded_backward<2>>},
    {.op = "replication_pad3d_backward",
     .doc = "the gradient of replication_pad3d",
     .meta = rule<&padded_backward<3>>},
    {.op = "im2col", .doc = "windows as columns", .meta = rule<&im2col>},
    {.op = "col2im", .doc = "adds columns up to images", .meta = rule<&col2im>},
    {.op = "pixel_shuffle", .doc = "channels to pixels", .meta = rule<&pixel_shuffle>},
    {.op = "pixel_unshuffle", .doc = "pixels to channels", .meta = rule<&pixel_unshuffle>},
    {.op = "channel_shuffle", .doc = "interleaves groups", .meta = rule<&channel_shuffle>},
    {.op = "grid_sampler_2d", .doc = "images at the points of a grid", .meta = rule<&grid_sampler>},
    {.op = "grid_sampler_3d",
     .doc = "volumes at the points of a grid",
     .meta = rule<&grid_sampler>},
    {.op = "grid_sampler_2d_backward",
     .doc = "the gradients of grid_sampler_2d",
     .meta = rule<&grid_sampler_backward>},
    {.op = "grid_sampler_3d_backward",
     .doc = "the gradients of grid_sampler_3d",
     .meta = rule<&grid_sampler_backward>},
}));

}  // namespace

constinit const std::span<const OpRecord> pooling = records;

}  // namespace fulgurite::catalogue_families
