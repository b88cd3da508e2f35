#include "bindings/state_record.h"

#include "base/error.h"
#include "bindings/python_tensor.h"

namespace fulgurite {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;

std::string bytes_of(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const at::Tensor flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
  return {static_cast<const char*>(flat.const_data_ptr()), flat.nbytes()};
}

}  // namespace

bool StateRecord::replay(const std::vector<at::Tensor>& tensors,
                         const std::vector<nb::object>& containers,
                         const std::vector<nb::object>& results) const {
  std::vector<nb::object> wrapped;
  std::vector<PyObject*> given, made;
  for (const nb::object& result : results) made.push_back(result.ptr());
  for (const at::Tensor& tensor : tensors) {
    wrapped.push_back(nb::steal(wrap_tensor(tensor)));
    given.push_back(wrapped.back().ptr());
  }
  const auto argument = [&](int root) {
    return containers.at(static_cast<size_t>(root - first_argument)).ptr();
  };
  return effects.replay(given, argument, made);
}

int StateRecord::visit(visitproc visit, void* arg) const {
  if (int stop = guards.visit(visit, arg)) return stop;
  return effects.visit(visit, arg);
}

ReadTensor::ReadTensor(const at::Tensor& tensor) : tensor(tensor) {
  if (tensor.nbytes() > kMostBytes)
    throw Unsupported(fmt::format(
        "the function reads the data of a tensor of {} bytes that is not an argument; what it does "
        "depends on that data, which is too much to compare on every call (at most {} bytes)",
        tensor.nbytes(), kMostBytes));
  bytes = bytes_of(tensor);
}

bool ReadTensor::unchanged() const { return bytes_of(tensor) == bytes; }

}  // namespace fulgurite
