// Whether the memory of a tensor may have been written to, by whatever way.
//
// Version counters know of writes by operators, and not of all: not of those through `weight.data`,
// NumPy or an address, nor of those of torch's fused optimisers. A storage can be made to call a
// function when it next hands out its memory for writing (c10::StorageImpl::set_materializer),
// which all of these go through; reading does not call it.
#pragma once

#include <atomic>
#include <memory>

#include <ATen/core/Tensor.h>

namespace fulgurite {

// Of one storage, which it does not keep alive. For any thread.
class StorageWatch {
 public:
  StorageWatch(const StorageWatch&) = delete;
  StorageWatch& operator=(const StorageWatch&) = delete;

  // Whether this is the storage of a tensor, and its memory has been the same, with the same
  // elements, since `watch_memory` gave this watch. Once false of its storage, false for good.
  bool holds(const at::Tensor& tensor) const;
  bool is_alive() const { return !storage_.expired(); }

 private:
  friend class StorageWatches;
  explicit StorageWatch(const c10::Storage& storage);

  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  const c10::StorageImpl* address_;
  // The tensor and its version when the watch began: together they tell writes by operators.
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor_;
  uint32_t version_ = 0;
  const void* data_ = nullptr;
  std::atomic<bool> watching_{false};
  bool refused_ = false;  // for good: somebody may know the address
};
using StorageWatchPointer = std::shared_ptr<const StorageWatch>;

// Watches the memory of a tensor from now on. Null where others may write to it unseen: it is not
// from torch's own CPU allocator, or is shared with other processes; another tensor has it, which
// may be known to NumPy; or it was once handed out for writing without the version of the tensor
// having changed, or as an address, which may have been kept.
StorageWatchPointer watch_memory(const at::Tensor& tensor);

// Never watches a storage whose address was given away, if it has 64 KiB or more.
void refuse_to_watch(const c10::Storage& storage);

// While it lives, this thread may have the memory of a watched storage handed out without that
// counting as written: for what only reads, but does not say so. Another thread must not write.
class ReadingWatched {
 public:
  explicit ReadingWatched(const at::Tensor& tensor);
  ~ReadingWatched();
  ReadingWatched(const ReadingWatched&) = delete;
  ReadingWatched& operator=(const ReadingWatched&) = delete;

 private:
  c10::Storage storage_;
};

}  // namespace fulgurite
