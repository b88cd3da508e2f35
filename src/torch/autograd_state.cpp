#include "torch/autograd_state.h"

#include <torch/csrc/autograd/function.h>

#include "torch/keys.h"

namespace fulgurite {
namespace {

using torch::autograd::DifferentiableViewMeta;

DifferentiableViewMeta* backward_view(const at::Tensor& tensor) {
  auto* meta = torch::autograd::impl::get_view_autograd_meta(tensor);
  return meta && meta->has_bw_view() ? meta : nullptr;
}

struct OutsideGraph final : torch::autograd::Node {
  explicit OutsideGraph(void (*refuse)()) : refuse(refuse) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    refuse();
    return {};
  }
  std::string name() const override { return "OutsideGraph"; }
  void (*refuse)();
};

}  // namespace

TensorSnapshot::TensorSnapshot(const at::Tensor& tensor)
    : geometry_(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
          tensor.is_inference() ? c10::VariableVersion() : c10::VariableVersion(0),
          /*allow_change=*/true)) {
  if (!tensor.is_inference())
    version_ = tensor.unsafeGetTensorImpl()->version_counter().current_version();
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (!meta) return;
  grad_fn_ = meta->grad_fn_;
  output_nr_ = meta->output_nr_;
  grad_ = meta->grad_;
  auto* view = backward_view(tensor);
  if (!view) return;
  attr_version_ = view->get_attr_version();
  base_ = view->get_backward_view().base_;
  before_of_base_ = std::make_shared<const TensorSnapshot>(base_);
}

bool TensorSnapshot::restore(const at::Tensor& tensor) const {
  auto* impl = tensor.unsafeGetTensorImpl();
  const bool data_was_set = impl->key_set().has(kMark);
  if (data_was_set) impl->shallow_copy_from(geometry_);
  if (!tensor.is_inference()) {
    c10::VariableVersion counter = impl->version_counter();  // shared with the tensor
    counter.set_version(version_);
  }
  if (auto* meta = torch::autograd::impl::get_autograd_meta(tensor)) {
    meta->grad_fn_ = grad_fn_;
    meta->output_nr_ = output_nr_;
    meta->grad_ = grad_;
    if (auto* view = backward_view(tensor)) view->set_attr_version(attr_version_);
  }
  if (before_of_base_) before_of_base_->restore(base_);
  return data_was_set;
}

void make_non_leaf(const at::Tensor& tensor, void (*refuse)()) {
  auto node = c10::make_intrusive<OutsideGraph>(refuse);
  node->add_input_metadata(tensor);
  torch::autograd::impl::set_gradient_edge(tensor, {std::move(node), 0});
}

}  // namespace fulgurite
