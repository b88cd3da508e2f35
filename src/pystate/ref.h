// An owned reference to a Python object. All members need the GIL.
#pragma once

#include <Python.h>

#include <utility>

namespace fulgurite::pystate {

class Ref {
 public:
  Ref() = default;
  ~Ref() { Py_XDECREF(object_); }
  Ref(const Ref& other) : object_(Py_XNewRef(other.object_)) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  static Ref steal(PyObject* object) { return Ref(object); }
  static Ref borrow(PyObject* object) { return Ref(Py_XNewRef(object)); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit Ref(PyObject* owned) : object_(owned) {}

  PyObject* object_ = nullptr;
};

}  // namespace fulgurite::pystate
