#include "bindings/key_description.h"

#include <nanobind/stl/string.h>
#include <torch/csrc/DynamicTypes.h>

namespace fulgurite {

nb::tuple describe_key(const Key& words) {
  const uint64_t header = words[0];
  const auto dtype = static_cast<c10::ScalarType>(header & 0xff);
  const c10::Device device(static_cast<c10::DeviceType>(header >> 8 & 0xff),
                           static_cast<c10::DeviceIndex>(header >> 16 & 0xff));
  nb::list sizes, strides;
  for (size_t i = 2; i + 1 < words.size(); i += 2) {
    sizes.append(static_cast<int64_t>(words[i]));
    strides.append(static_cast<int64_t>(words[i + 1]));
  }
  const c10::DispatchKeySet keys(c10::DispatchKeySet::RAW, words[1]);
  return nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(torch::getTHPDtype(dtype))),
                        device.str(), nb::tuple(sizes), nb::tuple(strides), (header >> 40 & 1) != 0,
                        c10::toString(keys));
}

nb::list describe_aliasing(const Key& words) {
  nb::list list;
  for (size_t at = 0; at < words.size(); ++at) {
    const uint64_t word = words[at];
    const bool same = word & 1;
    list.append(nb::make_tuple(
        word >> 32 & 0x7fffffff, (word & 0xffffffff) >> 1,
        same ? nb::object(nb::none()) : nb::int_(static_cast<int64_t>(words[++at]))));
  }
  return list;
}

}  // namespace fulgurite
