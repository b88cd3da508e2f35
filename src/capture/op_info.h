// What capture has to know of an operator at every call of it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "ops/facts.h"

namespace fulgurite {

struct OpInfo {
  const OpFacts* facts = nullptr;
  int arguments = 0, returns = 0;
  int output_size_arg = -1;    // where it is given, the shape of the result does not depend on data
  bool writes = false;         // its schema is mutable
  bool has_out = false;        // writes to out= arguments
  bool ends_constant = false;  // the last step of torch.tensor(...)
  bool gives_raw_memory = false;  // that C++ code may fill by its pointer
  bool forward_ad = false;        // sets or reads tangents
  bool mask_index = false;        // its shape depends on data when an index is a mask
  bool mixes_devices = false;     // copies between devices
  bool autocast_kernel = false;
  bool promotes_dtypes = false;  // takes arguments of several dtypes, and says so itself if not
  bool elementwise = false;      // each element of what it writes depends on its like alone
  bool returns_tensor = false;   // its first result is one
  bool composite = false;        // only a program of other operators, autograd included
  bool decomposes = false;       // ... below autograd, too
  // Torch's zeros without memory stand for others: no kernel but torch's own may meet them.
  std::optional<c10::OperatorHandle> recorded_as;
};

const OpInfo& op_info(const c10::OperatorHandle& op);

}  // namespace fulgurite
