// The dispatch keys that capture lives on.
//
// Torch 2.13 declares three keys that nothing registers a fallback for. Capture takes them, from
// high to low:
//   kAbove  a thread-local mode that sees a call before functorch, autocast and autograd;
//   kMark   in the key set of every trace tensor and of nothing else;
//   kBelow  a thread-local mode that sees a call after autograd, before a backend is selected.
#pragma once

#include <c10/core/DispatchKeySet.h>

namespace fulgurite {

inline constexpr c10::DispatchKey kAbove = c10::DispatchKey::TESTING_ONLY_GenericMode;
inline constexpr c10::DispatchKey kMark = c10::DispatchKey::TESTING_ONLY_GenericWrapper;
inline constexpr c10::DispatchKey kBelow = c10::DispatchKey::Fake;
inline constexpr c10::DispatchKeySet kCaptureKeys{kAbove, kMark, kBelow};

// The modes of torch.func while one of its transforms is at work.
inline constexpr c10::DispatchKeySet kFunctorchModes{
    c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
    c10::DispatchKey::FuncTorchDynamicLayerBackMode};

// Tensors that a torch.func transform or functionalisation wrapped.
inline constexpr c10::DispatchKeySet kFunctorchTensors{
    c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper,
    c10::DispatchKey::BatchedNestedTensor, c10::DispatchKey::Functionalize};

// In the key set of every tensor that is not a plain one: strided, dense, of torch's own class.
inline constexpr c10::DispatchKeySet kForeignKeys =
    kFunctorchTensors | c10::DispatchKeySet{kMark,
                                            c10::DispatchKey::Python,
                                            c10::DispatchKey::Sparse,
                                            c10::DispatchKey::SparseCsr,
                                            c10::DispatchKey::Quantized,
                                            c10::DispatchKey::NestedTensor,
                                            c10::DispatchKey::MkldnnCPU};

// Lazy views: the key stands for a bit of the tensor.
inline constexpr c10::DispatchKeySet kLazyBits{
    c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor};

constexpr c10::DispatchKeySet strictly_below(c10::DispatchKey key) {
  return c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key);
}

}  // namespace fulgurite
