// The recording of a torch.autograd.Function.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <torch/csrc/autograd/python_function.h>

#include "bindings/areas.h"
#include "bindings/tensor_caster.h"
#include "capture/custom_function.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

using Tensors = std::vector<std::optional<at::Tensor>>;

bool zeros_for_none(nb::handle context) {
  return reinterpret_cast<THPFunction*>(context.ptr())->materialize_grads;
}

Tensors begin_backward(CustomCall& call, const std::vector<bool>& given) {
  Tensors gradients;
  for (at::Tensor& gradient : call.begin_backward(given))
    gradients.push_back(gradient.defined() ? std::optional(std::move(gradient)) : std::nullopt);
  return gradients;
}

void end_backward(CustomCall& call, const Tensors& results) {
  std::vector<at::Tensor> tensors;
  for (const auto& result : results) tensors.push_back(result.value_or(at::Tensor()));
  call.end_backward(tensors);
}

}  // namespace

void bind_custom(nb::module_& m) {
  nb::class_<CustomCall>(m, "CustomCall", "The recording of one call of a custom function.")
      .def(nb::init<std::string, const std::vector<at::Tensor>&>())
      .def_static("possible", &CustomCall::possible)
      .def("__enter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__exit__", [](CustomCall& call, nb::args) { call.give_up(); })
      .def("end_forward", &CustomCall::end_forward)
      .def("begin_backward", &begin_backward, "A gradient, or None, for each result.")
      .def("end_backward", &end_backward)
      .def("finish", &CustomCall::finish);
  m.def("zeros_for_none", &zeros_for_none,
        "Whether the backward of this context gets zeros for gradients that are not there.");
}

}  // namespace fulgurite
