#include "bindings/python_tensor.h"

#include <torch/csrc/autograd/python_variable.h>

namespace fulgurite {

bool is_python_tensor(PyObject* object) { return THPVariable_Check(object); }

const at::Tensor& tensor_of(PyObject* object) { return THPVariable_Unpack(object); }

PyObject* wrap_tensor(const at::Tensor& tensor) { return THPVariable_Wrap(tensor); }

PyObject* tensor_class() { return THPVariableClass; }

}  // namespace fulgurite
