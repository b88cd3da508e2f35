// What autograd and torch's C++ API may change about a real tensor that a traced program works on.
#pragma once

#include <torch/csrc/autograd/variable.h>

#include <memory>

namespace fulgurite {

// Taken before, put back after: the recorded writes did not happen to the real tensor.
class TensorSnapshot {
 public:
  explicit TensorSnapshot(const at::Tensor& tensor);

  // Returns whether .data of the tensor was set to a trace tensor meanwhile.
  bool restore(const at::Tensor& tensor) const;

 private:
  c10::intrusive_ptr<c10::TensorImpl> geometry_;
  c10::intrusive_ptr<torch::autograd::Node> grad_fn_;
  uint32_t output_nr_ = 0;
  uint32_t version_ = 0;
  uint32_t attr_version_ = 0;  // of a view
  at::Tensor grad_;
  at::Tensor base_;  // of a view: a write to the view gives it a history
  std::shared_ptr<const TensorSnapshot> before_of_base_;
};

// Makes a leaf trace tensor look like the result of a computation outside of the capture: it
// requires grad and has a grad_fn, whose backward calls `refuse`.
void make_non_leaf(const at::Tensor& tensor, void (*refuse)());

}  // namespace fulgurite
