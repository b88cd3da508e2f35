// Weights in the layout that oneDNN multiplies by fastest.
#pragma once

#include <memory>
#include <mutex>

#include <ATen/core/Tensor.h>

#include "torch/storage_watch.h"

namespace fulgurite {

// A copy of a weight, opaque to torch. For any thread.
class PackedWeight {
 public:
  // `packed` holds what `weight` does, as the watch saw its memory.
  PackedWeight(const at::Tensor& weight, StorageWatchPointer watch, at::Tensor packed);
  ~PackedWeight();
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;

  // Whether it is of this very weight, whose memory nobody may have written to since.
  bool serves(const at::Tensor& weight) const;
  // Undefined once it was dropped.
  at::Tensor packed() const;
  // Frees its memory if the weight is gone.
  void drop_if_dead();

 private:
  const StorageWatchPointer watch_;
  const at::ScalarType dtype_;
  const int64_t offset_;
  const at::DimVector sizes_, strides_;
  mutable std::mutex mutex_;
  at::Tensor packed_;
  int64_t bytes_ = 0;
};

// What one product has of its weight. All products share what they have of one weight.
class WeightOfProduct {
 public:
  // `by_rows`: the weight has a row for each element of a row of the result. Undefined where the
  // weight cannot be watched, or changes so often that it does not pay to pack it. Packs it, unless
  // that was done for the same weight.
  at::Tensor packed(const at::Tensor& weight, bool by_rows);

 private:
  std::mutex mutex_;
  std::shared_ptr<PackedWeight> current_;
  int64_t calls_ = 0, packings_ = 0;
};

// Bytes of all packed weights; those of weights that are gone are freed first.
int64_t bytes_of_packed_weights();

}  // namespace fulgurite
