// What a program has to say of the state of torch that it runs under.
#pragma once

#include <string>
#include <vector>

#include "ir/trace.h"

namespace fulgurite {

// The device types whose autocast could act on the program, in order of their numbers.
std::vector<c10::DeviceType> autocast_devices(const Trace& trace);

// "torch.no_grad()".
std::string grad_mode_text(GradMode mode);

// What to put after `with` for calls in `inner` below `outer`.
std::string grad_mode_change(GradMode outer, GradMode inner);

}  // namespace fulgurite
