#include "bindings/outputs.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "bindings/python_tensor.h"

namespace fulgurite {
namespace {

using Kind = OutputTemplate::Kind;
constexpr std::array<const char*, 8> kKinds{"tensor", "constant", "tuple", "list",
                                            "dict",   "build",    "again", "argument"};

class Builder {
 public:
  Builder(const std::vector<at::Tensor>& tensors, const std::vector<nb::object>& arguments,
          std::vector<nb::object>& made)
      : tensors_(tensors), arguments_(arguments), made_(made) {}

  PyObject* make(const OutputTemplate& t) {
    switch (t.kind) {
      case Kind::Tensor:
        return wrap_tensor(tensors_[t.index]);
      case Kind::Constant:
        return t.object.inc_ref().ptr();
      case Kind::Again:
        return made_[t.index].inc_ref().ptr();
      case Kind::Argument:
        return arguments_.at(t.index).inc_ref().ptr();
      case Kind::Tuple:
        return tuple(t);
      case Kind::List:
        return remember(list(t));
      case Kind::Dict:
        return dict(t);
      case Kind::Build:
        return other(t);
    }
    internal_error("an output template of no kind");
  }

 private:
  PyObject* remember(PyObject* container) {
    if (container) made_.push_back(nb::borrow(container));
    return container;
  }

  PyObject* tuple(const OutputTemplate& t) {
    nb::object result = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(t.children.size())));
    for (size_t i = 0; i < t.children.size(); ++i) {
      PyObject* item = make(t.children[i]);
      if (!item) return nullptr;
      PyTuple_SET_ITEM(result.ptr(), static_cast<Py_ssize_t>(i), item);
    }
    return remember(result.release().ptr());
  }

  PyObject* list(const OutputTemplate& t) {
    nb::object result = nb::steal(PyList_New(static_cast<Py_ssize_t>(t.children.size())));
    for (size_t i = 0; i < t.children.size(); ++i) {
      PyObject* item = make(t.children[i]);
      if (!item) return nullptr;
      PyList_SET_ITEM(result.ptr(), static_cast<Py_ssize_t>(i), item);
    }
    return result.release().ptr();
  }

  PyObject* dict(const OutputTemplate& t) {
    nb::object result = nb::steal(PyDict_New());
    for (size_t i = 0; i < t.children.size(); ++i) {
      nb::object value = nb::steal(make(t.children[i]));
      PyObject* key = PyList_GET_ITEM(t.object.ptr(), static_cast<Py_ssize_t>(i));
      if (!value.is_valid() || PyDict_SetItem(result.ptr(), key, value.ptr()) < 0) return nullptr;
    }
    return remember(result.release().ptr());
  }

  PyObject* other(const OutputTemplate& t) {
    nb::object children = nb::steal(list(t));
    if (!children.is_valid()) return nullptr;
    return remember(PyObject_CallOneArg(t.object.ptr(), children.ptr()));
  }

  const std::vector<at::Tensor>& tensors_;
  const std::vector<nb::object>& arguments_;
  std::vector<nb::object>& made_;
};

}  // namespace

OutputTemplate read_template(nb::handle description) {
  OutputTemplate t;
  const auto kind = nb::cast<std::string>(description[0]);
  const auto* found = std::find(kKinds.begin(), kKinds.end(), kind);
  require(found != kKinds.end(), "no output template of kind {}", kind);
  t.kind = static_cast<Kind>(found - kKinds.begin());
  if (t.kind == Kind::Tensor || t.kind == Kind::Again || t.kind == Kind::Argument)
    t.index = nb::cast<int32_t>(description[1]);
  else
    t.object = description[1];
  for (nb::handle child : description[2]) t.children.push_back(read_template(child));
  return t;
}

PyObject* build(const OutputTemplate& output, const std::vector<at::Tensor>& tensors,
                const std::vector<nb::object>& arguments, std::vector<nb::object>& made) {
  return Builder(tensors, arguments, made).make(output);
}

int visit(const OutputTemplate& output, visitproc visit, void* arg) {
  Py_VISIT(output.object.ptr());
  for (const OutputTemplate& child : output.children)
    if (int stop = fulgurite::visit(child, visit, arg)) return stop;
  return 0;
}

}  // namespace fulgurite
