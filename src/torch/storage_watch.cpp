#include "torch/storage_watch.h"

#include <mutex>
#include <unordered_map>

#include <c10/core/impl/COW.h>

namespace fulgurite {
namespace {

thread_local const c10::StorageImpl* read_by_this_thread = nullptr;

}  // namespace

StorageWatch::StorageWatch(const c10::Storage& storage)
    : storage_(storage.getWeakStorageImpl()),
      address_(storage.unsafeGetStorageImpl()),
      tensor_(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()) {}

bool StorageWatch::holds(const at::Tensor& tensor) const {
  if (!tensor.has_storage()) return false;
  const c10::Storage& storage = tensor.storage();
  return storage.unsafeGetStorageImpl() == address_ && watching_.load(std::memory_order_acquire) &&
         storage.data() == data_;
}

// Watches by storage. Those of storages that are gone keep their addresses from being used again,
// until there are twice as many as there were alive.
class StorageWatches {
 public:
  static StorageWatches& all() {
    static auto& watches = *new StorageWatches;  // storages outlive what is destroyed at exit
    return watches;
  }

  StorageWatchPointer watch(const at::Tensor& tensor) {
    const c10::Storage& storage = tensor.storage();
    c10::StorageImpl& impl = *storage.unsafeGetStorageImpl();
    const std::lock_guard lock(mutex_);
    if (const auto known = watches_.find(&impl); known != watches_.end()) {
      StorageWatch& watch = *known->second;
      if (watch.holds(tensor)) return known->second;
      const bool by_operators =
          watch.tensor_._unsafe_get_target() == tensor.unsafeGetTensorImpl() &&
          watch.version_ != tensor._version();
      watch.watching_ = false;
      watch.refused_ |= !by_operators;
      if (watch.refused_) return nullptr;
    }
    if (impl.has_materializer() || !c10::impl::cow::has_simple_data_ptr(impl) ||
        storage.use_count() != 1)
      return nullptr;
    // A new one: what was made by the one before is of other elements.
    StorageWatch& watch = renewed(storage);
    watch.tensor_ = tensor.getIntrusivePtr();
    watch.version_ = static_cast<uint32_t>(tensor._version());
    watch.data_ = storage.data();
    watch.watching_ = true;
    impl.set_materializer(&handed_out);
    return watches_.at(&impl);
  }

  void refuse(const c10::Storage& storage) {
    const std::lock_guard lock(mutex_);
    if (const auto known = watches_.find(storage.unsafeGetStorageImpl()); known != watches_.end())
      known->second->watching_ = false;
    renewed(storage).refused_ = true;
  }

  static void watch_again(c10::StorageImpl& impl) {
    const std::lock_guard lock(all().mutex_);
    const auto known = all().watches_.find(&impl);
    if (known == all().watches_.end() || !known->second->watching_) return;
    if (!impl.has_materializer()) impl.set_materializer(&handed_out);
  }

 private:
  using Pointer = std::shared_ptr<StorageWatch>;

  // torch takes the function away from the storage after it was called.
  static void handed_out(c10::StorageImpl* storage) {
    if (storage == read_by_this_thread) return;
    const std::lock_guard lock(all().mutex_);
    if (const auto known = all().watches_.find(storage); known != all().watches_.end())
      known->second->watching_ = false;
  }

  StorageWatch& renewed(const c10::Storage& storage) {
    if (watches_.size() >= most_) {
      std::erase_if(watches_, [](const auto& watch) { return !watch.second->is_alive(); });
      most_ = std::max(kFewest, 2 * watches_.size());
    }
    Pointer& watch = watches_[storage.unsafeGetStorageImpl()];
    watch.reset(new StorageWatch(storage));
    return *watch;
  }

  static constexpr size_t kFewest = 256;

  std::mutex mutex_;
  std::unordered_map<const c10::StorageImpl*, Pointer> watches_;
  size_t most_ = kFewest;
};

StorageWatchPointer watch_memory(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || !tensor.is_cpu() || tensor.is_inference())
    return nullptr;
  return StorageWatches::all().watch(tensor);
}

void refuse_to_watch(const c10::Storage& storage) {
  constexpr size_t kLeastBytes = size_t{1} << 16;
  if (storage && storage.device_type() == at::kCPU && storage.nbytes() >= kLeastBytes)
    StorageWatches::all().refuse(storage);
}

ReadingWatched::ReadingWatched(const at::Tensor& tensor) : storage_(tensor.storage()) {
  read_by_this_thread = storage_.unsafeGetStorageImpl();
}

ReadingWatched::~ReadingWatched() {
  read_by_this_thread = nullptr;
  StorageWatches::watch_again(*storage_.unsafeGetStorageImpl());
}

}  // namespace fulgurite
