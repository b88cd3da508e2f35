// What the thread's dispatch keys say, and guards that change them.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "torch/keys.h"

namespace fulgurite {

using DispatchState = c10::impl::LocalDispatchKeySet;
inline DispatchState dispatch_state() { return c10::impl::tls_local_dispatch_key_set(); }

// Torch fills real memory (torch.tensor, from_numpy) with both Python keys excluded.
inline bool fills_real_memory(const DispatchState& state) {
  constexpr c10::DispatchKeySet both{c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot};
  return state.excluded_.has_all(both);
}

// A torch.func transform is between us and the kernels: it has to rewrite the call first.
inline bool functorch_active(const DispatchState& state) {
  return (state.included_ - state.excluded_).has_any(kFunctorchModes);
}

// Autocast is on for some kind of device. (An operator without an autocast rule has no such key in
// the key set that it is called with.)
inline bool autocast_active(const DispatchState& state) {
  return !(c10::autocast_dispatch_keyset - state.excluded_).empty();
}

// A Python TorchDispatchMode (FakeTensorMode, make_fx, ...) is on the stack.
inline bool dispatch_mode_active(const DispatchState& state) {
  return state.included_.has(c10::DispatchKey::Python);
}

// Calls made meanwhile are seen below autograd only.
class BelowOnly {
 private:
  c10::impl::ExcludeDispatchKeyGuard guard_{c10::DispatchKeySet{kAbove, kMark}};
};

// Calls made meanwhile are none of capture's.
class CaptureOff {
 private:
  c10::impl::ExcludeDispatchKeyGuard guard_{kCaptureKeys};
};

// Calls made meanwhile are not cast by autocast, which says that it is off.
class NoAutocast {
 private:
  c10::impl::ExcludeDispatchKeyGuard guard_{c10::autocast_dispatch_keyset};
};

// Calls made meanwhile are seen by autograd, where grad mode is on, and by version counters, though
// a plan runs below them.
class WithAutogradKeys {
 private:
  static DispatchState state() {
    DispatchState state = dispatch_state();
    state.excluded_ = state.excluded_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView;
    return state;
  }
  c10::impl::ForceDispatchKeyGuard guard_{state()};
};

// What stands between a call and its kernels, but for `kBelow`: capture, autograd, autocast,
// torch.func, Python modes.
inline c10::DispatchKeySet keys_above_kernels() {
  static const c10::DispatchKeySet keys =
      c10::DispatchKeySet{kAbove,
                          kMark,
                          c10::DispatchKey::ADInplaceOrView,
                          c10::DispatchKey::Python,
                          c10::DispatchKey::PythonTLSSnapshot,
                          c10::DispatchKey::PreDispatch,
                          c10::DispatchKey::PythonDispatcher,
                          c10::DispatchKey::Functionalize,
                          c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                          c10::DispatchKey::FuncTorchDynamicLayerBackMode,
                          c10::DispatchKey::FuncTorchVmapMode} |
      c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset;
  return keys;
}

// Calls made meanwhile go straight to `kBelow` and to the Meta kernels.
class MetaOnly {
 private:
  c10::impl::ForceDispatchKeyGuard guard_{
      c10::DispatchKeySet{c10::DispatchKey::BackendSelect, kBelow}, keys_above_kernels()};
};

// Calls made meanwhile go straight to the kernels.
class KernelsOnly {
 private:
  c10::impl::ForceDispatchKeyGuard guard_{c10::DispatchKeySet{c10::DispatchKey::BackendSelect},
                                          keys_above_kernels() | c10::DispatchKeySet{kBelow}};
};

}  // namespace fulgurite
