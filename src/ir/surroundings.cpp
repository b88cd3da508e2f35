#include "ir/surroundings.h"

#include <algorithm>
#include <set>

#include <ATen/autocast_mode.h>

namespace fulgurite {
namespace {

// Autocast acts where an operator is called: here, or by a composite kernel on its way.
bool autocast_acts(const Call& call, c10::DispatchKey key) {
  if (call.op.aten) {
    if (call.op.aten->hasKernelForDispatchKey(key)) return true;
    const bool composite =
        call.op.aten->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    if (composite && call.body.empty()) return true;
  }
  return std::any_of(call.body.begin(), call.body.end(),
                     [key](const Call& inner) { return autocast_acts(inner, key); });
}

}  // namespace

std::vector<c10::DeviceType> autocast_devices(const Trace& trace) {
  std::set<c10::DeviceType> devices;
  for (const Value& value : trace.values) devices.insert(value.type.device.type());
  std::vector<c10::DeviceType> result;
  for (c10::DeviceType device : devices) {
    if (!at::autocast::is_autocast_available(device)) continue;
    const auto key = at::autocast::get_autocast_dispatch_key_from_device_type(device);
    if (std::any_of(trace.calls.begin(), trace.calls.end(),
                    [key](const Call& call) { return autocast_acts(call, key); }))
      result.push_back(device);
  }
  return result;
}

std::string grad_mode_text(GradMode mode) {
  switch (mode) {
    case GradMode::NoGrad:
      return "torch.no_grad()";
    case GradMode::Grad:
      return "torch.enable_grad()";
    case GradMode::Inference:
      return "torch.inference_mode()";
  }
  return "";
}

std::string grad_mode_change(GradMode outer, GradMode inner) {
  if (outer == GradMode::Inference && inner != GradMode::Inference)
    return "torch.inference_mode(False), " + grad_mode_text(inner);
  return grad_mode_text(inner);
}

}  // namespace fulgurite
