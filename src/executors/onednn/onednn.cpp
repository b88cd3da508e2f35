#include "executors/onednn/onednn.h"

#include <algorithm>

#include <ATen/Config.h>
#include <ATen/Context.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "codegen/jit/cpu_target.h"
#include "executors/fused_cpu/timing.h"
#include "executors/onednn/packed_weight.h"

#include "ir/layout.h"
#include "ir/print.h"
#include "ops/catalogue.h"

namespace fulgurite {
namespace {

// The rule, as measured (docs/decisions/0015): elements of a weight, and rows.
constexpr int64_t kLeastWeight = int64_t{1} << 18, kFewestRows = 2;
constexpr int kBytesOfAvx512 = 64;

const ProductOperands* operands_of(const Call& call) {
  const OpRecord* record = call.op.aten ? find_record(*call.op.aten) : nullptr;
  return record && record->product ? &record->product : nullptr;
}

const TensorType* type_of_arg(const Trace& trace, const Call& call, int32_t arg) {
  if (arg < 0 || call.args.at(arg).kind != Arg::Kind::Value) return nullptr;
  const ValueId id = call.args[arg].values[0];
  return id == kNoValue ? nullptr : &type_of(trace, id);
}

bool is_constant(const Trace& trace, ValueId id) {
  const auto input = std::ranges::find(trace.inputs, id, &Input::id);
  return input != trace.inputs.end() && input->kind != InputKind::Argument;
}

bool is_unscaled(const Call& call, const ProductOperands& product) {
  return std::ranges::all_of(product.scales, [&](int32_t arg) {
    if (arg < 0) return true;
    const c10::IValue& scale = call.args.at(arg).constant;
    return call.args[arg].kind == Arg::Kind::Constant && scale.isScalar() &&
           scale.toScalar().equal(1);
  });
}

Refusal refuse_processor() {
  if (!at::hasMKLDNN() || !at::globalContext().userEnabledMkldnn()) return "oneDNN is off";
  if (default_target().vector_bytes < kBytesOfAvx512)
    return "packed weights were not measured on a processor without AVX-512";
  return "";
}

Refusal refuse_types(const TensorType& input, const TensorType& weight, const TensorType& result,
                     const TensorType* bias) {
  if (weight.dtype != at::kFloat && weight.dtype != at::kBFloat16)
    return fmt::format("products of {}", c10::toString(weight.dtype));
  for (const TensorType* type : {&input, &weight, &result, bias}) {
    if (!type) continue;
    if (!type->device.is_cpu()) return "it is not on the CPU";
    if (type->dtype != weight.dtype || type->conj || type->neg) return "operands of several kinds";
  }
  if (!is_contiguous(input) || !is_contiguous(result)) return "rows that do not lie in order";
  return "";
}

Refusal claims(const Trace& trace, const Call& call) {
  const ProductOperands* product = operands_of(call);
  if (!product) return "only products by a weight are packed";
  if (call.mode == GradMode::Grad) return "autograd is to see it";
  if (Refusal reason = refuse_processor(); !reason.empty()) return reason;
  const TensorType* input = type_of_arg(trace, call, product->input);
  const TensorType* weight = type_of_arg(trace, call, product->weight);
  const TensorType* bias = type_of_arg(trace, call, product->bias);
  const TensorType& result = type_of(trace, call.results.at(0).values.at(0));
  if (!input || !weight || weight->sizes.size() != 2) return "its weight is no matrix";
  if (!is_constant(trace, call.args[product->weight].values[0]))
    return "its weight is no parameter, buffer or constant of the program";
  if (Refusal reason = refuse_types(*input, *weight, result, bias); !reason.empty()) return reason;
  const int64_t columns = weight->sizes[product->by_rows ? 0 : 1];
  if (bias && bias->sizes != Dims{columns}) return "what is added is no row";
  if (!is_unscaled(call, *product)) return "it is scaled";
  if (numel(*weight) < kLeastWeight)
    return fmt::format("a weight of less than {} elements", kLeastWeight);
  if (numel(result) < kFewestRows * columns) return "one row: its weight is read once either way";
  return "";
}

// A claim says already that it takes less time.
Quote fuses(const Trace&, std::span<const Call* const> calls, c10::ArrayRef<ValueId>,
            c10::ArrayRef<ValueId>) {
  if (calls.size() > 1) return {.refusal = "each product is a region of its own"};
  return {.refusal = "", .together = 1, .apart = 2};
}

// A product, its operands as numbers of the region's inputs, -1 for none.
struct PackedProduct {
  int32_t input = -1, weight = -1, bias = -1;
  bool by_rows = false;
  std::function<at::Tensor(const at::Tensor& input, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias)>
      unpacked;
  std::shared_ptr<WeightOfProduct> packed = std::make_shared<WeightOfProduct>();
};

at::Tensor multiply_packed(const at::Tensor& input, const at::Tensor& packed,
                           const std::optional<at::Tensor>& bias) {
  using Scalars = c10::List<std::optional<at::Scalar>>;
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
          .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                            std::string_view, Scalars, std::optional<std::string_view>)>();
  return op.call(input, packed, bias, "none", Scalars(), "");
}

at::Tensor multiply(const PackedProduct& product, const at::Tensor& input, const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias) {
  const bool enabled = at::globalContext().userEnabledMkldnn();
  const at::Tensor packed =
      enabled ? product.packed->packed(weight, product.by_rows) : at::Tensor();
  if (!packed.defined()) return product.unpacked(input, weight, bias);
  return multiply_packed(input, packed, bias);
}

template <class Tensors>
at::Tensor multiply(const PackedProduct& product, const Tensors& tensor) {
  std::optional<at::Tensor> bias;
  if (product.bias >= 0) bias = tensor(product.bias);
  return multiply(product, tensor(product.input), tensor(product.weight), bias);
}

PackedProduct product_of(const Call& region) {
  const Call& call = region.body.at(0);
  const ProductOperands& operands = *operands_of(call);
  std::vector<ValueId> inputs;
  for_each_value(region.args, [&](ValueId id) { inputs.push_back(id); });
  const auto number = [&](int32_t arg) {
    if (arg < 0 || call.args[arg].kind != Arg::Kind::Value) return -1;
    const auto found = std::ranges::find(inputs, call.args[arg].values[0]);
    return found == inputs.end() ? -1 : static_cast<int32_t>(found - inputs.begin());
  };
  PackedProduct product;
  product.input = number(operands.input);
  product.weight = number(operands.weight);
  product.bias = number(operands.bias);
  product.by_rows = operands.by_rows;
  product.unpacked = [by_rows = operands.by_rows](const at::Tensor& input, const at::Tensor& weight,
                                                  const std::optional<at::Tensor>& bias) {
    if (by_rows) return at::linear(input, weight, bias);
    return bias ? at::addmm(*bias, input, weight) : at::mm(input, weight);
  };
  return product;
}

[[noreturn]] void refuse_text() {
  user_error("a product by a packed weight is a kernel of oneDNN's, which has no text to replace");
}

RegionCodePointer code_of(const Trace& trace, const Call& region) {
  const auto product = std::make_shared<const PackedProduct>(product_of(region));
  auto code = std::make_shared<RegionCode>();
  code->run = [product](RegionInputs inputs, RegionTargets, RegionResults& results) {
    results.push_back(
        multiply(*product, [&](int32_t i) -> const at::Tensor& { return *inputs[i].tensor; }));
    return true;
  };
  code->time = [product](TensorList inputs, double seconds) {
    return median_nanoseconds(seconds, [&] {
      multiply(*product, [&](int32_t i) -> const at::Tensor& { return inputs[i]; });
    });
  };
  std::vector<std::string> operands;
  for_each_value(region.args, [&](ValueId id) {
    const TensorType& type = type_of(trace, id);
    operands.push_back(print_type(type));
    code->bytes += numel(type) * static_cast<int64_t>(c10::elementSize(type.dtype));
  });
  const TensorType& result = type_of(trace, region.results.at(0).values.at(0));
  code->bytes += numel(result) * static_cast<int64_t>(c10::elementSize(result.dtype));
  code->program =
      fmt::format("oneDNN's product of {} by a packed weight\n", fmt::join(operands, ", "));
  code->used_text = [] { return std::string(); };
  code->assembly = [] { return std::string(); };
  code->replace_text = [](const std::string& text) {
    if (!text.empty()) refuse_text();
  };
  return code;
}

std::vector<RegionCodePointer> lower(const Trace& trace, std::span<const Call* const> regions) {
  std::vector<RegionCodePointer> codes;
  for (const Call* region : regions) codes.push_back(code_of(trace, *region));
  return codes;
}

}  // namespace

Executor onednn_executor() {
  return {.name = "onednn",
          .claims = &claims,
          .fuses = &fuses,
          .lower = &lower,
          .by_structure = false,
          .regions = "packed",
          .keeps_weights = true};
}

}  // namespace fulgurite
