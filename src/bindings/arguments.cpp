#include "bindings/arguments.h"

#include <torch/csrc/Device.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "bindings/containers.h"
#include "bindings/function_modes.h"
#include "bindings/python_tensor.h"

namespace fulgurite {
namespace {

// One word for each step of the walk, so that different structures give different keys.
enum Mark : uint64_t { kTensor = 0xF0, kParameter, kNumber, kText, kContainer, kObject };

constexpr int kDeepest = 200;

// Such tensors say that they are strided.
bool is_nested_or_quantized(const at::TensorImpl& tensor) {
  return tensor.key_set().has(c10::DispatchKey::NestedTensor) ||
         tensor.key_set().has(c10::DispatchKey::Quantized);
}

std::string kind_of(const at::TensorImpl& tensor) {
  if (tensor.key_set().has(c10::DispatchKey::NestedTensor)) return "a nested tensor";
  if (tensor.key_set().has(c10::DispatchKey::Quantized)) return "a quantized tensor";
  return fmt::format("a tensor of layout {}", c10::str(tensor.layout()));
}

class Reader {
 public:
  Reader(Arguments& out, bool offsets) : out_(out), offsets_(offsets) {}

  void read(PyObject* object) {
    if (depth_ > kDeepest) {
      out_.declined = "an argument is nested too deeply, or contains itself";
      return;
    }
    ++depth_;
    read_one(object);
    --depth_;
  }

 private:
  void read_one(PyObject* object) {
    if (is_plain_tensor(object)) return tensor(object);
    PyTypeObject* type = Py_TYPE(object);
    if (type == &PyLong_Type) return integer(object);
    if (type == &PyFloat_Type)
      return word(kNumber, type, std::bit_cast<uint64_t>(PyFloat_AS_DOUBLE(object)));
    if (object == Py_None || type == &PyBool_Type) return identity(object);
    if (type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyComplex_Type)
      return compared(object);
    switch (shape_of(object)) {
      case Shape::Tuple:
      case Shape::NamedTuple:
        return items(type, PySequence_Fast_ITEMS(object), Py_SIZE(object));
      case Shape::List:
        out_.containers.push_back(object);
        return items(type, PySequence_Fast_ITEMS(object), PyList_GET_SIZE(object));
      case Shape::Dict:
        return dict(object);
      case Shape::Other:
        return other(object);
      case Shape::Handler:
        out_.handler = object;
        return;
      case Shape::Leaf:
        if (type == &PySlice_Type || type == &PyRange_Type) return bounds(object);
        if (type == &THPDeviceType) return compared(object);
        return leaf(object);
    }
  }

  // Of a slice or a range: made anew for each call, mostly.
  void bounds(PyObject* object) {
    nb::object parts[3];
    const char* names[] = {"start", "stop", "step"};
    for (int i = 0; i < 3; ++i) parts[i] = nb::steal(PyObject_GetAttrString(object, names[i]));
    for (const nb::object& part : parts)
      if (!part.is_none() && !PyLong_CheckExact(part.ptr())) return leaf(object);
    word(kContainer, Py_TYPE(object), 3);
    for (nb::object& part : parts) {
      read(part.ptr());
      out_.opened.push_back(std::move(part));
    }
  }

  void word(Mark mark, PyTypeObject* type, uint64_t value) {
    out_.key.push_back(mark ^ reinterpret_cast<uint64_t>(type));
    out_.key.push_back(value);
  }

  void identity(PyObject* object) {
    word(kObject, Py_TYPE(object), reinterpret_cast<uint64_t>(object));
  }

  void compared(PyObject* object) {
    const Py_hash_t hash = PyObject_Hash(object);
    if (hash == -1) throw nb::python_error();
    word(kText, Py_TYPE(object), static_cast<uint64_t>(hash));
    out_.compared.push_back(object);
  }

  void integer(PyObject* object) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) return compared(object);
    word(kNumber, &PyLong_Type, static_cast<uint64_t>(value));
  }

  void tensor(PyObject* object) {
    const at::Tensor& tensor = tensor_of(object);
    const at::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (!tensor.defined() || impl.layout() != at::kStrided || is_nested_or_quantized(impl))
        [[unlikely]] {
      out_.declined = "an argument is " + kind_of(impl);
      return;
    }
    const bool plain = reinterpret_cast<PyObject*>(Py_TYPE(object)) == tensor_class();
    out_.key.push_back(plain ? kTensor : kParameter);
    append_tensor(out_.key, impl);
    // A program may ask whether it is a leaf, and whether it has a gradient.
    if (impl.requires_grad()) out_.key.push_back(tensor.is_leaf() | impl.grad().defined() << 1);
    if (offsets_) append_offset(out_.key, impl);
    out_.tensors.push_back(object);
    out_.impls.push_back(&impl);
    if (PyObject** attributes = _PyObject_GetDictPtr(object); attributes && *attributes)
      if (PyDict_GET_SIZE(*attributes)) attributes_of(object, *attributes);
  }

  // A tensor may be found more than once, through its own attributes too.
  void attributes_of(PyObject* object, PyObject* attributes) {
    if (std::find(out_.tensors.begin(), out_.tensors.end() - 1, object) == out_.tensors.end() - 1)
      dict(attributes);
  }

  void items(PyTypeObject* type, PyObject** items, Py_ssize_t size) {
    word(kContainer, type, static_cast<uint64_t>(size));
    for (Py_ssize_t i = 0; i < size; ++i) read(items[i]);
  }

  void dict(PyObject* object) {
    out_.containers.push_back(object);
    word(kContainer, &PyDict_Type, static_cast<uint64_t>(PyDict_GET_SIZE(object)));
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value);) {
      read(key);
      read(value);
    }
  }

  void other(PyObject* object) {
    out_.containers.push_back(object);
    Opened opened = open_container(object);
    const size_t size = nb::len(opened.children);
    word(kContainer, Py_TYPE(object), size);
    out_.opened.push_back(opened.context);
    read(opened.context.ptr());
    out_.opened.push_back(opened.children);
    for (size_t i = 0; i < size; ++i) read(PyList_GET_ITEM(opened.children.ptr(), i));
  }

  void leaf(PyObject* object) {
    if (is_python_tensor(object)) {
      out_.declined =
          fmt::format("an argument is a {}, a subclass of torch.Tensor", Py_TYPE(object)->tp_name);
      return;
    }
    identity(object);
    out_.identified.push_back(object);
  }

  Arguments& out_;
  bool offsets_;
  int depth_ = 0;
};

}  // namespace

void read_arguments(Arguments& out, PyObject* const* args, Py_ssize_t positional,
                    PyObject* keyword_names, bool offsets) {
  out.given = args, out.positional = positional, out.keyword_names = keyword_names;
  append_ambient(out.key);
  if (const uint64_t device = default_device_word()) out.key.push_back(device);
  out.key.push_back(static_cast<uint64_t>(positional));
  Reader reader(out, offsets);
  const Py_ssize_t keywords = keyword_names ? PyTuple_GET_SIZE(keyword_names) : 0;
  for (Py_ssize_t i = 0; i < positional; ++i) reader.read(args[i]);
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    reader.read(PyTuple_GET_ITEM(keyword_names, i));
    reader.read(args[positional + i]);
  }
  append_aliasing(out.key, out.impls);
}

namespace {

nb::object argument_at(const Arguments& arguments, const nb::object& place) {
  if (PyLong_Check(place.ptr())) {
    const Py_ssize_t index = PyLong_AsSsize_t(place.ptr());
    return index < arguments.positional ? nb::borrow(arguments.given[index]) : nb::object();
  }
  const Py_ssize_t keywords =
      arguments.keyword_names ? PyTuple_GET_SIZE(arguments.keyword_names) : 0;
  for (Py_ssize_t i = 0; i < keywords; ++i)
    if (PyUnicode_Compare(PyTuple_GET_ITEM(arguments.keyword_names, i), place.ptr()) == 0)
      return nb::borrow(arguments.given[arguments.positional + i]);
  return nb::object();
}

nb::object follow(const nb::object& from, const ContainerPlaces::Step& step) {
  using Kind = ContainerPlaces::Step::Kind;
  PyObject* found = nullptr;
  if (step.kind == Kind::Dict)
    found = PyObject_GenericGetDict(from.ptr(), nullptr);
  else if (step.kind == Kind::Attribute)
    found = PyObject_GetAttr(from.ptr(), step.key.ptr());
  else if (PyDict_Check(from.ptr()))
    found = Py_XNewRef(PyDict_GetItemWithError(from.ptr(), step.key.ptr()));
  else
    found = PyObject_GetItem(from.ptr(), step.key.ptr());
  PyErr_Clear();
  return nb::steal(found);
}

}  // namespace

bool find_containers(const ContainerPlaces& places, const Arguments& arguments,
                     std::vector<nb::object>& containers) {
  containers.assign(static_cast<size_t>(places.containers), nb::object());
  for (const ContainerPlaces::Place& place : places.places) {
    nb::object found = argument_at(arguments, place.argument);
    for (const ContainerPlaces::Step& step : place.steps)
      if (found.is_valid()) found = follow(found, step);
    if (!found.is_valid()) return false;
    nb::object& known = containers[static_cast<size_t>(place.container)];
    if (known.is_valid() && !known.is(found)) return false;
    known = std::move(found);
  }
  for (size_t i = 0; i < containers.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (containers[i].is(containers[k])) return false;
  return true;
}

ContainerPlaces read_places(nb::handle description) {
  ContainerPlaces places;
  for (nb::handle given : description) {
    ContainerPlaces::Place place{nb::object(given[0]), {}, nb::cast<int32_t>(given[2])};
    for (nb::handle step : given[1])
      place.steps.push_back(
          {static_cast<ContainerPlaces::Step::Kind>(nb::cast<int>(step[0])), nb::object(step[1])});
    places.containers = std::max(places.containers, place.container + 1);
    places.places.push_back(std::move(place));
  }
  return places;
}

bool equal_values(c10::ArrayRef<PyObject*> a, c10::ArrayRef<PyObject*> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (Py_TYPE(a[i]) != Py_TYPE(b[i])) return false;
    // By bits: == does not tell 0.0 from -0.0, nor nan from anything.
    if (PyComplex_Check(a[i])) {
      const Py_complex x = PyComplex_AsCComplex(a[i]), y = PyComplex_AsCComplex(b[i]);
      if (std::bit_cast<uint64_t>(x.real) != std::bit_cast<uint64_t>(y.real) ||
          std::bit_cast<uint64_t>(x.imag) != std::bit_cast<uint64_t>(y.imag))
        return false;
      continue;
    }
    const int equal = PyObject_RichCompareBool(a[i], b[i], Py_EQ);
    if (equal < 0) PyErr_Clear();
    if (equal != 1) return false;
  }
  return true;
}

}  // namespace fulgurite
