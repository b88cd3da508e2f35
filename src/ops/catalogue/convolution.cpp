// Convolution. Which backend runs, and in which memory format, is torch's own decision.
#include <ATen/native/ConvUtils.h>

#include "ops/catalogue/families.h"
#include "ops/meta/tensors.h"

namespace fulgurite::catalogue_families {
namespace {

using namespace meta;
using at::native::ConvBackend;
using Optional = std::optional<Tensor>;

// A CPU tensor of this geometry, without data: the choice of a backend looks at the device.
Tensor on_cpu(const Tensor& self, bool extra_dim, bool contiguous = false) {
  at::DimVector sizes(self.sizes()), strides(self.strides());
  if (contiguous && !self.is_contiguous()) strides = c10::contiguous_strides(self.sizes());
  if (extra_dim) {
    strides.insert(strides.begin() + 2, self.size(2) * strides[2]);
    sizes.insert(sizes.begin() + 2, 1);
  }
  c10::Storage nothing(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, at::kCPU), nullptr,
                       false);
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      std::move(nothing), c10::DispatchKeySet(c10::DispatchKey::CPU), self.dtype());
  impl->set_sizes_and_strides(sizes, strides);
  return Tensor(std::move(impl));
}

struct Convolution {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;
};

// One number stands for all dimensions.
std::vector<int64_t> expanded(IntArrayRef numbers, int64_t dims, const char* name) {
  if (numbers.size() == 1) return std::vector<int64_t>(dims, numbers[0]);
  TORCH_CHECK(static_cast<int64_t>(numbers.size()) == dims, "expected ", name,
              " to be a single integer value or a list of ", dims,
              " values to match the "
              "convolution dimensions, but got ",
              name, "=", numbers);
  return numbers.vec();
}

Convolution parameters(const Tensor& weight, IntArrayRef stride, IntArrayRef padding,
                       IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                       int64_t groups) {
  const int64_t dims = weight.dim() - 2;
  TORCH_CHECK(dims > 0, "weight should have at least three dimensions");
  TORCH_CHECK(groups > 0, "non-positive groups is not supported");
  return {expanded(stride, dims, "stride"),
          expanded(padding, dims, "padding"),
          expanded(dilation, dims, "dilation"),
          expanded(output_padding, dims, "output_padding"),
          transposed,
          groups};
}

void check(const Tensor& input, const Tensor& weight, const Tensor& bias, const Convolution& c) {
  const auto all = [](const std::vector<int64_t>& numbers, int64_t least) {
    return std::all_of(numbers.begin(), numbers.end(), [&](int64_t n) { return n >= least; });
  };
  TORCH_CHECK(all(c.padding, 0), "negative padding is not supported");
  TORCH_CHECK(all(c.output_padding, 0), "negative output_padding is not supported");
  TORCH_CHECK(all(c.stride, 1), "non-positive stride is not supported");
  TORCH_CHECK(all(c.dilation, 1), "dilation should be greater than zero");
  TORCH_CHECK(input.dim() == weight.dim(), "Expected ", weight.dim(), "-dimensional input for ",
              weight.dim(), "-dimensional weight ", weight.sizes(), ", but got ", input.dim(),
              "-dimensional input of size ", input.sizes(), " instead");
  TORCH_CHECK(weight.size(0) >= c.groups && weight.size(0) % c.groups == 0,
              "Given groups=", c.groups, ", expected weight to be divisible by ", c.groups,
              " at dimension 0");
  const int64_t channels = c.transposed ? weight.size(0) : weight.size(1) * c.groups;
  TORCH_CHECK(input.size(1) == channels, "Given groups=", c.groups, ", weight of size ",
              weight.sizes(), ", expected input", input.sizes(), " to have ", channels,
              " channels, but got ", input.size(1), " channels instead");
  const int64_t outputs = c.transposed ? weight.size(1) * c.groups : weight.size(0);
  TORCH_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) == outputs),
              "expected bias to be 1-dimensional with ", outputs,
              " elements, but got bias of size ", bias.defined() ? bias.sizes() : IntArrayRef());
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.scalar_type(),
              ") and weight type (", weight.scalar_type(), ") should be the same");
  TORCH_CHECK(!bias.defined() || input.scalar_type() == bias.scalar_type(), "Input type (",
              input.scalar_type(), ") and bias type should be the same");
  for (int64_t d = 2; d < input.dim() && !c.transposed; ++d)
    TORCH_CHECK(input.size(d) + 2 * c.padding[d - 2] > c.dilation[d - 2] * (weight.size(d) - 1),
                "Calculated padded input size per channel is smaller than the kernel: input ",
                input.sizes(), ", weight ", weight.sizes());
}

std::vector<int64_t> output_sizes(const Tensor& input, const Tensor& weight, const Convolution& c) {
  auto sizes = c.transposed
                   ? at::native::conv_input_size(input.sizes(), weight.sizes(), c.padding,
                                                 c.output_padding, c.stride, c.dilation, c.groups)
                   : at::native::conv_output_size(input.sizes(), weight.sizes(), c.padding,
                                                  c.stride, c.dilation);
  for (size_t d = 2; d < sizes.size(); ++d)
    TORCH_CHECK(sizes[d] > 0, "Given input size per channel: ", input.sizes().slice(2),
                ". Calculated output size per channel: ", IntArrayRef(sizes).slice(2),
                ". Output size is too small");
  return sizes;
}

// What runs, seen as the convolution of two or three dimensions that it is.
struct Choice {
  ConvBackend backend;
  MemoryFormat format;
  bool one_dim;  // run as a convolution of two dimensions, the first of size one
};
Choice choose(const Tensor& input, const Tensor& weight, const Tensor& bias, Convolution c,
              at::OptionalIntArrayRef bias_sizes) {
  const bool one_dim = weight.dim() == 3;
  if (one_dim) {
    c.stride.insert(c.stride.begin(), 1);
    c.padding.insert(c.padding.begin(), 0);
    c.dilation.insert(c.dilation.begin(), 1);
    c.output_padding.insert(c.output_padding.begin(), 0);
  }
  // An input of one dimension is made contiguous first, whatever layout it has.
  const Tensor x = on_cpu(input, one_dim, one_dim);
  const Tensor w = on_cpu(weight, one_dim);
  const auto symbolic = [](IntArrayRef ints) { return c10::fromIntArrayRefSlow(ints); };
  at::OptionalSymIntArrayRef sizes;
  if (bias_sizes) sizes = symbolic(*bias_sizes);
  const Optional b = bias.defined() ? Optional(on_cpu(bias, false)) : Optional();
  const ConvBackend backend = at::native::select_conv_backend(
      x, w, b, symbolic(c.stride), symbolic(c.padding), symbolic(c.dilation), c.transposed,
      symbolic(c.output_padding), c.groups, sizes);
  return {backend, at::native::_determine_backend_memory_format(x, w, backend), one_dim};
}

// A result that is made with an extra dimension of size one, and handed out without it.
Tensor make(IntArrayRef sizes, ScalarType dtype, const Choice& choice, MemoryFormat format) {
  if (!choice.one_dim) return empty(sizes, dtype, format);
  at::DimVector wide(sizes);
  wide.insert(wide.begin() + 2, 1);
  const Tensor whole = empty(wide, dtype, format);
  at::DimVector strides(whole.strides());
  strides.erase(strides.begin() + 2);
  return view(whole, sizes, strides);
}

Tensor convolution(const Tensor& input, const Tensor& weight, const Optional& bias_opt,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                   IntArrayRef output_padding, int64_t groups) {
  const Tensor bias = bias_opt.value_or(Tensor());
  const Convolution c =
      parameters(weight, stride, padding, dilation, transposed, output_padding, groups);
  check(input, weight, bias, c);
  const Choice choice = choose(input, weight, bias, c, {});
  return make(output_sizes(input, weight, c), input.scalar_type(), choice, choice.format);
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad, const Tensor& input,
                                                        const Tensor& weight,
                                                        at::OptionalIntArrayRef bias_sizes,
                                                        IntArrayRef stride, IntArrayRef padding,
                                                        IntArrayRef dilation, bool transposed,
                                                        IntArrayRef output_padding, int64_t groups,
                                                        std::array<bool, 3> mask) {
  const Convolution c =
      parameters(weight, stride, padding, dilation, transposed, output_padding, groups);
  check(input, weight, {}, c);
  TORCH_CHECK(grad.sizes() == IntArrayRef(output_sizes(input, weight, c)),
              "Mismatch in shape: grad_output has a shape of ", grad.sizes(),
              " but the output has a shape of ", IntArrayRef(output_sizes(input, weight, c)));
  const Choice choice = choose(input, weight, {}, c, bias_sizes);
  std::tuple<Tensor, Tensor, Tensor> result;
  if (mask[0]) std::get<0>(result) = make(input.sizes(), grad.scalar_type(), choice, choice.format);
  if (mask[1])
    std::get<1>(result) = make(weight.sizes(), grad.scalar_type(), choice, choice.format);
  if (mask[2])
    std::get<2>(result) =
        empty({transposed ? weight.size(1) * groups : weight.size(0)}, grad.scalar_type());
  return result;
}

// Copies that a convolution makes of its operands: oneDNN's in blocks of 16 channels, as its
// kernels for AVX-512 take them, and those of ATen's own loops as columns, an image after the
// other.
class Copies {
 public:
  // `first`: the place of the input among the arguments.
  Copies(const Trace& trace, const Call& call, size_t first) {
    const auto tensor = [&](size_t i) {
      if (call.args[i].kind != Arg::Kind::Value || call.args[i].values[0] == kNoValue)
        return Tensor();
      const TensorType& type = type_of(trace, call.args[i].values[0]);
      return at::empty_strided(type.sizes, type.strides,
                               at::TensorOptions(at::kMeta).dtype(type.dtype));
    };
    const auto numbers = [&](size_t i) { return call.args[i].constant.toIntVector(); };
    input_ = tensor(first);
    weight_ = tensor(first + 1);
    const bool transposed = call.args[first + 6].constant.toBool();
    c_ = parameters(weight_, numbers(first + 3), numbers(first + 4), numbers(first + 5), transposed,
                    numbers(first + 7), call.args[first + 8].constant.toInt());
    choice_ = choose(input_, weight_, {}, c_, {});
    sizes_ = output_sizes(input_, weight_, c_);
  }

  int64_t forward() const {
    switch (choice_.backend) {
      case ConvBackend::Mkldnn:
        if (is_product()) return 0;
        if (choice_.format != MemoryFormat::Contiguous) return weight();
        return std::max(input() + weight() + output() - plain_output(), output());
      case ConvBackend::MkldnnTranspose:
        return 2 * plain_output();
      default:
        return columns();
    }
  }

  int64_t backward(bool gives_input) const {
    const auto plain = static_cast<int64_t>(weight_.nbytes());
    switch (choice_.backend) {
      case ConvBackend::Mkldnn:
        if (is_product()) return 0;
        if (choice_.format != MemoryFormat::Contiguous) return 2 * plain;
        return std::max(input() + output() + weight() - plain,
                        gives_input ? blocked(input_.sizes(), 1) : 0);
      case ConvBackend::MkldnnTranspose:
        return static_cast<int64_t>(input_.nbytes()) + plain_output();
      default:
        return columns();
    }
  }

 private:
  static constexpr int64_t kBlock = 16, kFewChannels = 3;  // which oneDNN takes as they are

  // A matrix product, on the operands as they are.
  bool is_product() const {
    const auto all = [](IntArrayRef numbers, int64_t n) {
      return std::ranges::all_of(numbers, [&](int64_t i) { return i == n; });
    };
    return all(weight_.sizes().slice(2), 1) && all(c_.stride, 1) && all(c_.padding, 0);
  }

  int64_t each() const { return static_cast<int64_t>(weight_.element_size()); }
  int64_t padded(int64_t channels) const {
    const bool splits_blocks = c_.groups > 1 && c_.groups != input_.size(1);
    return splits_blocks ? channels : (channels + kBlock - 1) / kBlock * kBlock;
  }
  bool has_few_channels() const { return input_.size(1) <= kFewChannels; }

  // With blocks in the dimension of the channels.
  int64_t blocked(IntArrayRef sizes, size_t dimension) const {
    int64_t count = padded(sizes[dimension]);
    for (size_t d = 0; d < sizes.size(); ++d)
      if (d != dimension) count *= sizes[d];
    return count * each();
  }
  int64_t input() const { return has_few_channels() ? 0 : blocked(input_.sizes(), 1); }
  int64_t output() const { return blocked(sizes_, 1); }
  int64_t weight() const {
    const int64_t bytes = blocked(weight_.sizes(), 0);
    return has_few_channels() || c_.groups > 1 ? bytes
                                               : bytes / weight_.size(1) * padded(weight_.size(1));
  }
  int64_t plain_output() const { return c10::multiply_integers(sizes_) * each(); }

  int64_t columns() const {
    if (is_product() || c_.transposed) return 0;
    const int64_t places = c10::multiply_integers(sizes_) / std::max<int64_t>(1, sizes_[1]);
    return places * input_.size(1) * c10::multiply_integers(weight_.sizes().slice(2)) * each();
  }

  Tensor input_, weight_;
  Convolution c_;
  Choice choice_;
  std::vector<int64_t> sizes_;
};

int64_t scratch_of_convolution(const Trace& trace, const Call& call) {
  return Copies(trace, call, 0).forward();
}

int64_t scratch_of_backward(const Trace& trace, const Call& call) {
  return Copies(trace, call, 1).backward(call.args[10].constant.toBoolList()[0]);
}

constexpr auto records = checked(std::to_array<OpRecord>({
    {.op = "convolution",
     .doc = "convolution in 1 to 3 dimensions",
     .meta = rule<&convolution>,
     .scratch = &scratch_of_convolution},
    {.op = "convolution_backward",
     .doc = "the gradients of convolution",
     .meta = rule<&convolution_backward>,
     .scratch = &scratch_of_backward},
}));

}  // namespace

constinit const std::span<const OpRecord> convolution_family = records;

}  // namespace fulgurite::catalogue_families
