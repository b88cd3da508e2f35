// What a function of a user's returned, held against what the trace says.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ir/types.h"

namespace fulgurite {

// Whether dtype, device, sizes and strides are those of `type`. Strides of dimensions of size one
// and of tensors without elements are free; so is where it begins in its memory.
bool has_layout(const TensorType& type, const at::Tensor& tensor);

// "" where `results` are as many as `types`, each as its type, in memory that neither an argument
// nor another result has.
std::string fault_of_results(const std::vector<TensorType>& types,
                             const std::vector<at::Tensor>& arguments,
                             const std::vector<at::Tensor>& results);

// A tensor of the same memory where nobody else has that, otherwise a copy. Of one that requires
// grad it is not seen that somebody has the very tensor.
at::Tensor owned(at::Tensor tensor);

// Of tensors that are not to be written to, by the counters that writes through torch advance.
class Versions {
 public:
  explicit Versions(const std::vector<at::Tensor>& tensors);
  int first_changed(const std::vector<at::Tensor>& tensors) const;  // -1: none

 private:
  std::vector<int64_t> before_;
};

}  // namespace fulgurite
