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

int64_t extent(const TensorType& type) {
  if (numel(type) == 0) return 0;
  int64_t last = 0;
  for (size_t i = 0; i < type.sizes.size(); ++i) last += (type.sizes[i] - 1) * type.strides[i];
  return last + 1;
}

bool is_dense(const TensorType& type) {
  return is_injective(type) && (numel(type) == 0 || extent(type) == numel(type));
}

}  // namespace fulgurite
