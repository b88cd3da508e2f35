// What a call of this thread is under besides the settings of torch: function modes, and whoever
// else transforms the operators that run.
#pragma once

#include <cstdint>

namespace fulgurite {

// A word for the default device (torch.set_default_device, `with torch.device(...)`), which is a
// function mode; 0 for none. It stands for the device alone.
uint64_t default_device_word();

// Who transforms the calls of this thread, so that the user's own code has to run for them to see:
// "" for a capture of ours, else in words for the user; null where nobody does.
const char* transformer_of_calls();

}  // namespace fulgurite
