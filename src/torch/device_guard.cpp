#include "torch/device_guard.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/FakeGuardImpl.h>

namespace fulgurite {

void require_device_guard(c10::Device device) {
  if (!device.is_cuda() || c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return;
  static c10::impl::FakeGuardImpl<c10::kCUDA> guard;
  c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::kCUDA)].store(&guard);
}

}  // namespace fulgurite
