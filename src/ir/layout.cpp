#include "ir/layout.h"

#include <algorithm>
#include <utility>

namespace fulgurite {

bool is_injective(const TensorType& type) {
  c10::SmallVector<std::pair<int64_t, int64_t>, 5> dims;  // stride and size
  for (size_t d = 0; d < type.sizes.size(); ++d)
    if (type.sizes[d] > 1) dims.emplace_back(type.strides[d], type.sizes[d]);
  std::ranges::sort(dims);
  int64_t end = 1;  // of what lies within a step of the next dimension
  for (const auto& [stride, size] : dims) {
    if (stride < end) return false;
    end = stride * size;
  }
  return true;
}

}  // namespace fulgurite
