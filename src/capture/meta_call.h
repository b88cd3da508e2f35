// Result types by running an operator on meta tensors.
#pragma once

#include <optional>

#include <ATen/core/stack.h>

#include "capture/op_info.h"

namespace fulgurite {

// True on a thread while a meta kernel is at work: what it calls is inferred, too.
bool inferring();

// Runs the operator's meta kernel on the arguments on `stack`, within `MetaOnly`.
void call_meta_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                      torch::jit::Stack* stack);

// Marks the thread as inferring.
class Inferring {
 public:
  Inferring();
  ~Inferring();
  Inferring(const Inferring&) = delete;
};

// Turns arguments into those of a meta call: no real device, no pinned memory, no generator.
// Returns the device that the results live on: of the tensors (`device`), else as asked for.
c10::Device to_meta_arguments(const OpInfo& info, std::optional<c10::Device> device,
                              c10::IValue* arguments);

// The type of a value whose geometry is that of `meta`, but for its storage.
TensorType geometry_of(const at::Tensor& meta, c10::Device device);

// The device of an operator's results, from those of its tensors; a CPU scalar decides nothing.
// Throws what eager throws where they do not agree.
class CommonDevice {
 public:
  explicit CommonDevice(const OpInfo& info) : info_(info) {}
  void add(const c10::TensorImpl* tensor, c10::Device device, bool is_index);
  std::optional<c10::Device> get() const { return device_; }

 private:
  void disagree(c10::Device other) const;

  const OpInfo& info_;
  std::optional<c10::Device> device_;
  bool only_scalars_ = true;
};

}  // namespace fulgurite
