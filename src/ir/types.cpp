#include "ir/types.h"

namespace fulgurite {

int64_t numel(const TensorType& type) {
  int64_t n = 1;
  for (int64_t size : type.sizes) n *= size;
  return n;
}

bool is_contiguous(const TensorType& type) {
  if (numel(type) == 0) return true;
  int64_t expected = 1;
  for (size_t i = type.sizes.size(); i-- > 0;) {
    if (type.sizes[i] != 1 && type.strides[i] != expected) return false;
    expected *= type.sizes[i];
  }
  return true;
}

}  // namespace fulgurite
