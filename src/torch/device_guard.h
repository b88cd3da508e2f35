// Composites and autograd ask for the guard of a tensor's device.
#pragma once

#include <c10/core/Device.h>

namespace fulgurite {

// Gives a device that this torch was built without a guard that does nothing, so that a program
// can be traced for it.
void require_device_guard(c10::Device device);

}  // namespace fulgurite
