// What is known of a value of a trace when it is produced.
#pragma once

#include <cstdint>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/SmallVector.h>

namespace fulgurite {

// A value's number is its place in `Trace::values`: given at capture, kept by every pass.
using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

// Equal for values which share memory; never reused within a series of traces.
using StorageId = int32_t;
inline constexpr StorageId kNoStorage = -1;

using Dims = c10::SmallVector<int64_t, 5>;

struct TensorType {
  c10::ScalarType dtype = c10::ScalarType::Float;
  c10::Device device = c10::Device(c10::kCPU);
  Dims sizes;
  Dims strides;        // in elements
  int64_t offset = 0;  // in elements, from the start of the storage
  StorageId storage = kNoStorage;
  int64_t nbytes = 0;  // of that storage
  bool requires_grad = false;
  bool conj = false;  // the conjugate bit of a lazy complex view
  bool neg = false;   // the negative bit

  bool operator==(const TensorType&) const = default;
};

int64_t numel(const TensorType& type);

// Row-major without gaps; dimensions of size one may have any stride.
bool is_contiguous(const TensorType& type);

}  // namespace fulgurite
