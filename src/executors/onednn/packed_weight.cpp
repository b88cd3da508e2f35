#include "executors/onednn/packed_weight.h"

#include <atomic>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

namespace fulgurite {
namespace {

// So often at least, and for at most one in so many calls besides, is a weight packed again: it
// takes as long as a product of a few rows.
constexpr int64_t kPackings = 4, kCallsOfPacking = 4;

// All that are alive, for those who need one of the same weight.
struct Shelf {
  std::mutex mutex;
  std::vector<std::weak_ptr<PackedWeight>> weights;

  static Shelf& of_process() {
    static auto& shelf = *new Shelf;
    return shelf;
  }
};

std::atomic<int64_t>& all_bytes() {
  static std::atomic<int64_t> bytes{0};
  return bytes;
}

at::Tensor reordered(const at::Tensor& weight) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_reorder_linear_weight", "")
                             .typed<at::Tensor(const at::Tensor&, std::optional<int64_t>)>();
  return op.call(weight, std::nullopt);
}

int64_t bytes_of(const at::Tensor& packed) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_nbytes", "")
                             .typed<int64_t(const at::Tensor&)>();
  return op.call(packed);
}

std::vector<std::shared_ptr<PackedWeight>> on_shelf() {
  Shelf& shelf = Shelf::of_process();
  const std::lock_guard lock(shelf.mutex);
  std::vector<std::shared_ptr<PackedWeight>> found;
  for (const auto& weight : shelf.weights)
    if (auto alive = weight.lock()) found.push_back(std::move(alive));
  shelf.weights.assign(found.begin(), found.end());
  return found;
}

void put_on_shelf(const std::shared_ptr<PackedWeight>& weight) {
  Shelf& shelf = Shelf::of_process();
  const std::lock_guard lock(shelf.mutex);
  shelf.weights.push_back(weight);
}

}  // namespace

PackedWeight::PackedWeight(const at::Tensor& weight, StorageWatchPointer watch, at::Tensor packed)
    : watch_(std::move(watch)),
      dtype_(weight.scalar_type()),
      offset_(weight.storage_offset()),
      sizes_(weight.sizes()),
      strides_(weight.strides()),
      packed_(std::move(packed)),
      bytes_(bytes_of(packed_)) {
  all_bytes() += bytes_;
}

PackedWeight::~PackedWeight() { all_bytes() -= bytes_; }

bool PackedWeight::serves(const at::Tensor& weight) const {
  return watch_->holds(weight) && weight.scalar_type() == dtype_ &&
         weight.storage_offset() == offset_ && weight.sizes() == sizes_ &&
         weight.strides() == strides_ && !weight.is_conj() && !weight.is_neg();
}

at::Tensor PackedWeight::packed() const {
  const std::lock_guard lock(mutex_);
  return packed_;
}

void PackedWeight::drop_if_dead() {
  if (watch_->is_alive()) return;
  const std::lock_guard lock(mutex_);
  packed_.reset();
  all_bytes() -= std::exchange(bytes_, 0);
}

at::Tensor WeightOfProduct::packed(const at::Tensor& weight, bool by_rows) {
  const std::lock_guard lock(mutex_);
  ++calls_;
  if (current_ && current_->serves(weight)) return current_->packed();
  current_.reset();
  const StorageWatchPointer watch = watch_memory(weight);
  if (!watch) return {};
  for (const auto& other : on_shelf()) {
    other->drop_if_dead();
    if (!other->serves(weight)) continue;
    current_ = other;
    return current_->packed();
  }
  if (packings_ >= kPackings + calls_ / kCallsOfPacking) return {};
  ++packings_;
  at::Tensor made;
  {
    const ReadingWatched reading(weight);
    made = reordered(by_rows ? weight : weight.t());
  }
  auto fresh = std::make_shared<PackedWeight>(weight, watch, std::move(made));
  if (!fresh->serves(weight)) return {};
  put_on_shelf(fresh);
  current_ = std::move(fresh);
  return current_->packed();
}

int64_t bytes_of_packed_weights() {
  for (const auto& weight : on_shelf()) weight->drop_if_dead();
  return all_bytes();
}

}  // namespace fulgurite
