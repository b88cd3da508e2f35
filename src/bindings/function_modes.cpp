#include "bindings/function_modes.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <nanobind/nanobind.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/forward_grad.h>

#include "capture/tracer.h"
#include "pystate/place.h"

namespace nb = nanobind;

namespace fulgurite {
namespace {

// The mode that sets a default device, or null. Torch keeps one at most, at the bottom of the
// stack.
PyObject* device_mode() {
  static PyObject* type =
      nb::object(nb::module_::import_("torch.utils._device").attr("DeviceContext")).release().ptr();
  PyObject* mode = at::impl::PythonTorchFunctionTLS::get_stack_at(0)->ptr(getPyInterpreter());
  return reinterpret_cast<PyObject*>(Py_TYPE(mode)) == type ? mode : nullptr;
}

bool has_foreign_function_mode() {
  const int64_t modes = at::impl::PythonTorchFunctionTLS::stack_len();
  return modes > 1 || (modes == 1 && !device_mode());
}

}  // namespace

uint64_t default_device_word() {
  if (at::impl::PythonTorchFunctionTLS::stack_len() == 0) return 0;
  PyObject* mode = device_mode();
  if (!mode) return 0;
  const nb::object device = nb::handle(mode).attr("device");
  const c10::Device given = reinterpret_cast<THPDevice*>(device.ptr())->device;
  return uint64_t{1} << 62 | static_cast<uint64_t>(static_cast<uint8_t>(given.type())) << 8 |
         static_cast<uint64_t>(static_cast<uint8_t>(given.index()));
}

const char* transformer_of_calls() {
  using c10::DispatchKey;
  if (Tracer::active() || pystate::places_are_tracked()) return "";
  const c10::DispatchKeySet keys = c10::impl::tls_local_dispatch_key_set().included_;
  constexpr c10::DispatchKeySet kFunctorch{DispatchKey::FuncTorchDynamicLayerFrontMode,
                                           DispatchKey::FuncTorchDynamicLayerBackMode};
  constexpr c10::DispatchKeySet kModes{DispatchKey::Functionalize, DispatchKey::PreDispatch,
                                       DispatchKey::Python, DispatchKey::PythonTLSSnapshot};
  if (keys.has_any(kFunctorch))
    return "the call is inside of a torch.func transform (vmap, grad, jvp, ...), which sees the "
           "operators of the function itself";
  if (keys.has(DispatchKey::Tracer))
    return "the call is inside of torch.jit.trace, which records the operators of the function "
           "itself";
  if (c10::impl::TorchDispatchModeTLS::any_modes_set() || keys.has_any(kModes))
    return "the call is under a dispatch mode (make_fx, FakeTensorMode, torch.export, ...), which "
           "sees the operators of the function itself";
  if (has_foreign_function_mode())
    return "the call is under a torch function mode other than a default device, which sees the "
           "calls of the function itself";
  if (torch::autograd::ForwardADLevel::try_get_by_idx(0))
    return "the call is inside of forward-mode differentiation (torch.autograd.forward_ad), which "
           "traces do not carry";
  return nullptr;
}

}  // namespace fulgurite
