#include "runtime/guard_key.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "torch/autocast_state.h"

namespace fulgurite {
namespace {

uint64_t header(const at::TensorImpl& tensor) {
  const auto dtype = static_cast<uint64_t>(c10::typeMetaToScalarType(tensor.dtype()));
  const c10::Device device = tensor.device();
  return dtype | static_cast<uint64_t>(static_cast<uint8_t>(device.type())) << 8 |
         static_cast<uint64_t>(static_cast<uint8_t>(device.index())) << 16 |
         static_cast<uint64_t>(tensor.dim()) << 24 |
         static_cast<uint64_t>(tensor.requires_grad()) << 40 |
         static_cast<uint64_t>(tensor.is_wrapped_number()) << 41;
}

uint64_t context_word() {
  const at::Context& context = at::globalContext();
  uint64_t word = 0;
  for (bool flag :
       {at::GradMode::is_enabled(), c10::InferenceMode::is_enabled(),
        context.deterministicAlgorithms(), context.deterministicAlgorithmsWarnOnly(),
        context.userEnabledFlashSDP(), context.userEnabledMemEfficientSDP(),
        context.userEnabledMathSDP(), context.userEnabledMkldnn(), context.userEnabledNNPACK(),
        context.userEnabledCuDNN(), context.benchmarkCuDNN(), context.deterministicCuDNN(),
        torch::autograd::AnomalyMode::is_enabled()})
    word = word << 1 | static_cast<uint64_t>(flag);
  return word << 8 | static_cast<uint64_t>(c10::typeMetaToScalarType(c10::get_default_dtype()));
}

}  // namespace

void append_tensor(Key& key, const at::TensorImpl& tensor) {
  key.push_back(header(tensor));
  key.push_back(tensor.key_set().raw_repr());
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  for (size_t i = 0; i < sizes.size(); ++i) {
    key.push_back(static_cast<uint64_t>(sizes[i]));
    key.push_back(static_cast<uint64_t>(strides[i]));
  }
}

void append_offset(Key& key, const at::TensorImpl& tensor) {
  key.push_back(static_cast<uint64_t>(tensor.storage_offset()));
}

void append_aliasing(Key& key, c10::ArrayRef<const at::TensorImpl*> tensors) {
  // One word per tensor that is or shares memory with an earlier one; most calls have none.
  for (size_t i = 1; i < tensors.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const bool same = tensors[i] == tensors[j];
      if (!same && (!tensors[i]->has_storage() || !tensors[j]->has_storage() ||
                    tensors[i]->unsafe_storage().unsafeGetStorageImpl() !=
                        tensors[j]->unsafe_storage().unsafeGetStorageImpl()))
        continue;
      key.push_back(uint64_t{1} << 63 | static_cast<uint64_t>(i) << 32 |
                    static_cast<uint64_t>(j) << 1 | static_cast<uint64_t>(same));
      if (!same)  // where they lie relative to each other
        key.push_back(
            static_cast<uint64_t>(tensors[i]->storage_offset() - tensors[j]->storage_offset()));
      break;
    }
}

void append_ambient(Key& key) {
  key.push_back(context_word());
  key.push_back(AutocastState::now().word());
}

uint64_t hash(const Key& key) { return XXH3_64bits(key.data(), key.size() * sizeof(uint64_t)); }

TensorGuard::TensorGuard(const at::Tensor& tensor) {
  append_tensor(type, *tensor.unsafeGetTensorImpl());
}

bool TensorGuard::holds(const at::Tensor& tensor) const {
  const at::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const auto sizes = impl.sizes();
  if (type.size() != 2 + 2 * sizes.size() || type[0] != header(impl) ||
      type[1] != impl.key_set().raw_repr())
    return false;
  const auto strides = impl.strides();
  for (size_t i = 0; i < sizes.size(); ++i)
    if (type[2 + 2 * i] != static_cast<uint64_t>(sizes[i]) ||
        type[3 + 2 * i] != static_cast<uint64_t>(strides[i]))
      return false;
  return true;
}

}  // namespace fulgurite
