// Tensors and their Python objects. torch's own header for them brings pybind11, which costs each
// file that includes it seconds to compile.
#pragma once

#include <Python.h>

#include <ATen/core/Tensor.h>

namespace fulgurite {

// Whether it is a torch.Tensor, or of a class derived from it. Throws python_error where the
// object's own class does.
bool is_python_tensor(PyObject* object);

// Of a torch.Tensor; lives as long as the object.
const at::Tensor& tensor_of(PyObject* object);

// A new reference; null with an exception set where there is no object to be had.
PyObject* wrap_tensor(const at::Tensor& tensor);

// torch.Tensor, a borrowed reference.
PyObject* tensor_class();

}  // namespace fulgurite
