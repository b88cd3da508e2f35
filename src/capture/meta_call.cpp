#include "capture/meta_call.h"

#include <algorithm>

#include <ATen/native/TypeProperties.h>

#include "capture/arguments.h"
#include "capture/infer.h"
#include "ops/catalogue.h"
#include "ops/meta.h"
#include "ops/meta/tensors.h"
#include "ops/per_operator.h"
#include "torch/dispatch_state.h"
#include "torch/operator_kernels.h"

namespace fulgurite {
namespace {

thread_local int inferring_depth = 0;
thread_local std::map<std::string, int64_t> python_calls;

struct MetaKernel {
  const c10::KernelFunction* kernel = nullptr;  // null: the one that the dispatcher would take
  bool python = false;                          // which is written in Python
  // For a kernel that may say NotImplementedError: whether it has.
  std::unique_ptr<std::atomic<bool>> declined;
  const PointwiseRule* elementwise = nullptr;  // what it computes of each element, if known
};

// The kernel of all backends, where the CPU has none of its own. One that branches over backends
// in the end says NotImplementedError.
const c10::KernelFunction* composite_kernel(const c10::OperatorHandle& op) {
  if (kernels_at(op, c10::DispatchKey::CPU).cpp) return nullptr;
  for (auto key : {c10::DispatchKey::CompositeExplicitAutogradNonFunctional,
                   c10::DispatchKey::CompositeExplicitAutograd})
    if (auto* kernel = kernels_at(op, key).cpp) return kernel;
  return nullptr;
}

MetaKernel choose(const c10::OperatorHandle& op) {
  if (auto* rule = meta_rule(op)) return {rule, false, nullptr};
  const Kernels meta = kernels_at(op, c10::DispatchKey::Meta);
  // Another library's Python kernel was put there on purpose.
  if (!meta.python_in_use || op.schema().name().rfind("aten::", 0) != 0)
    return {meta.python_in_use ? nullptr : meta.cpp, meta.python_in_use, nullptr};
  if (meta.cpp) return {meta.cpp, false, nullptr};
  if (auto* kernel = composite_kernel(op))
    return {kernel, true, std::make_unique<std::atomic<bool>>(false)};
  return {nullptr, true, nullptr};
}

MetaKernel choose_with_rule(const c10::OperatorHandle& op) {
  MetaKernel choice = choose(op);
  const OpRecord* record = find_record(op);
  if (record && record->pointwise) choice.elementwise = &record->pointwise;
  return choice;
}

void call_chosen(const MetaKernel& choice, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                 torch::jit::Stack* stack) {
  if (choice.kernel && !choice.declined) {
    choice.kernel->callBoxed(op, keys, stack);
    return;
  }
  if (choice.kernel && !*choice.declined) {
    const size_t first = stack->size() - op.schema().arguments().size();
    const torch::jit::Stack arguments(stack->begin() + first, stack->end());
    try {
      choice.kernel->callBoxed(op, keys, stack);
      return;
    } catch (const c10::NotImplementedError&) {
      stack->resize(first);
      stack->insert(stack->end(), arguments.begin(), arguments.end());
      *choice.declined = true;
    }
  }
  if (choice.python) ++python_calls[c10::toString(op.operator_name())];
  op.redispatchBoxed(keys, stack);
}

bool has_gaps(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().dim() > 1 &&
         !value.toTensor().is_non_overlapping_and_dense();
}

// In which a kernel of the CPU computes; Undefined for that of each operand.
c10::ScalarType computed_dtype(const PointwiseRule& rule, const torch::jit::Stack& arguments,
                               const c10::IValue& result) {
  if (rule.computes_in == ComputesIn::First || !result.isTensor())
    return c10::ScalarType::Undefined;
  if (rule.computes_in == ComputesIn::Result) return result.toTensor().scalar_type();
  at::native::ResultTypeState operands;
  for (const c10::IValue& operand : {arguments[0], arguments[1]})
    operands = operand.isTensor()
                   ? at::native::update_result_type_state(operand.toTensor(), operands)
                   : at::native::update_result_type_state(operand.toScalar(), operands);
  return at::native::result_type(operands);
}

// Kernels of the CPU compute on copies of operands of other dtypes, and a copy of what has gaps
// lies elsewhere: so may the result then.
void call_on_copies(const MetaKernel& choice, const c10::OperatorHandle& op,
                    c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto& parameters = op.schema().arguments();
  const size_t first = stack->size() - parameters.size();
  torch::jit::Stack arguments(stack->begin() + first, stack->end());
  call_chosen(choice, op, keys, stack);
  const c10::ScalarType dtype = computed_dtype(*choice.elementwise, arguments, stack->at(first));
  if (dtype == c10::ScalarType::Undefined) return;
  bool copied = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_mask = parameters[i].name() == "mask" || parameters[i].name() == "condition";
    if (is_mask || !has_gaps(arguments[i]) || arguments[i].toTensor().scalar_type() == dtype)
      continue;
    arguments[i] = meta::to(arguments[i].toTensor(), dtype);
    copied = true;
  }
  if (!copied) return;
  stack->resize(first);
  stack->insert(stack->end(), arguments.begin(), arguments.end());
  call_chosen(choice, op, keys, stack);
}

}  // namespace

bool inferring() { return inferring_depth > 0; }
Inferring::Inferring() { ++inferring_depth; }
Inferring::~Inferring() { --inferring_depth; }
const std::map<std::string, int64_t>& python_meta_calls() { return python_calls; }

void call_meta_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                      torch::jit::Stack* stack) {
  const MetaKernel& choice = per_operator<&choose_with_rule>(op);
  const size_t count = op.schema().arguments().size();
  if (choice.elementwise && std::any_of(stack->end() - count, stack->end(), has_gaps))
    return call_on_copies(choice, op, keys, stack);
  call_chosen(choice, op, keys, stack);
}

c10::Device to_meta_arguments(const OpInfo& info, std::optional<c10::Device> device,
                              c10::IValue* arguments) {
  const OpFacts& facts = *info.facts;
  if (facts.device_arg >= 0) {
    c10::IValue& asked = arguments[facts.device_arg];
    if (asked.isDevice()) device = asked.toDevice();
    if (asked.isDevice() || !device) asked = c10::Device(c10::kMeta);
  }
  if (facts.pin_arg >= 0) arguments[facts.pin_arg] = c10::IValue();
  for (int i : facts.generator_args) arguments[i] = c10::IValue();
  if (!device) return c10::Device(c10::kCPU);
  if (!device->is_cpu() && !device->is_meta() && !device->has_index())
    return c10::Device(device->type(), 0);
  return *device;
}

TensorType geometry_of(const at::Tensor& meta, c10::Device device) {
  TensorType type;
  type.dtype = meta.scalar_type();
  type.device = device;
  type.sizes.append(meta.sizes().begin(), meta.sizes().end());
  type.strides.append(meta.strides().begin(), meta.strides().end());
  type.offset = meta.storage_offset();
  type.nbytes = static_cast<int64_t>(meta.storage().nbytes());
  type.conj = meta.is_conj();
  type.neg = meta.is_neg();
  return type;
}

void CommonDevice::add(const c10::TensorImpl* tensor, c10::Device device, bool is_index) {
  if (device_ && *device_ == device && !only_scalars_) [[likely]]
    return;
  const bool cpu_scalar = device.is_cpu() && tensor->dim() == 0;
  if (!device_ || (only_scalars_ && !cpu_scalar)) {
    device_ = device;
    only_scalars_ = cpu_scalar;
  } else if (*device_ != device && !cpu_scalar && !info_.mixes_devices &&
             !(is_index && device.is_cpu())) {
    disagree(device);
  }
}

void CommonDevice::disagree(c10::Device other) const {
  TORCH_CHECK(false,
              "Expected all tensors to be on the same device, but found at least two devices, ",
              *device_, " and ", other, "!");
}

}  // namespace fulgurite
