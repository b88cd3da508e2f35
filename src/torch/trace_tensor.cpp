#include "torch/trace_tensor.h"

#include <c10/core/InferenceMode.h>

#include "base/error.h"

namespace fulgurite {

TraceTensorImpl::Observer TraceTensorImpl::observer;

TraceTensorImpl::TraceTensorImpl(at::Tensor meta, int32_t id, uint64_t owner, c10::Device device,
                                 bool fillable)
    : TensorImpl(
          c10::Storage(meta.storage()),
          c10::DispatchKeySet(c10::computeDispatchKey(meta.scalar_type(), c10::kStrided, device)),
          meta.dtype()),
      id(id),
      owner(owner),
      fillable(fillable),
      meta_(std::move(meta)),
      device_(device) {
  key_set_ = (key_set_ | (meta_.key_set() & kLazyBits)).add(kMark);
  device_opt_ = device;
  set_custom_device(true);
  // data_ptr(), numpy(), DLPack: an error instead of a null pointer.
  if (!fillable) storage_.unsafeGetStorageImpl()->set_throw_on_mutable_data_ptr();
  mirror();
}

c10::intrusive_ptr<TraceTensorImpl> TraceTensorImpl::make(at::Tensor meta, int32_t id,
                                                          uint64_t owner, c10::Device device,
                                                          bool inference, bool fillable) {
  std::optional<c10::InferenceMode> mode;
  if (inference != c10::InferenceMode::is_enabled()) mode.emplace(inference);
  return c10::make_intrusive<TraceTensorImpl>(std::move(meta), id, owner, device, fillable);
}

void TraceTensorImpl::hide_layout() {
  layout_hidden_ = true;
  set_custom_sizes_strides(SizesStridesPolicy::CustomStrides);
}

c10::SymBool TraceTensorImpl::sym_is_contiguous_custom(at::MemoryFormat format) const {
  if (layout_hidden_) return false;
  return TensorImpl::sym_is_contiguous_custom(format);
}

namespace {

// A version counter of its own; an inference tensor may have none.
c10::VariableVersion version_for(const at::Tensor& tensor) {
  return tensor.is_inference() ? c10::VariableVersion() : c10::VariableVersion(0);
}

}  // namespace

void TraceTensorImpl::mirror() {
  set_sizes_and_strides(meta_.sizes(), meta_.strides(), meta_.storage_offset());
  if (!storage_.is_alias_of(meta_.storage())) {
    storage_ = meta_.storage();
    storage_.unsafeGetStorageImpl()->set_throw_on_mutable_data_ptr();
  }
  if (meta_.unsafeGetTensorImpl()->is_wrapped_number()) set_wrapped_number(true);
}

bool TraceTensorImpl::differs_from_meta() const {
  return storage_offset_ != meta_.storage_offset() || sizes() != meta_.sizes() ||
         strides() != meta_.strides() || !storage_.is_alias_of(meta_.storage());
}

c10::intrusive_ptr<TraceTensorImpl> TraceTensorImpl::copy(bool is_data) const {
  auto meta =
      at::Tensor(meta_.unsafeGetTensorImpl()->shallow_copy_and_detach(version_for(meta_), true));
  int32_t number = id;
  if (is_data && observer.data_taken) number = observer.data_taken(*this);
  auto result = make(std::move(meta), number, owner, device_,
                     const_cast<TraceTensorImpl*>(this)->is_inference());
  if (number == id) has_copies = result->has_copies = true;
  return result;
}

c10::intrusive_ptr<c10::TensorImpl> TraceTensorImpl::shallow_copy_and_detach(
    const c10::VariableVersion& version, bool allow_change) const {
  auto result = copy(false);
  if (!result->is_inference()) result->set_version_counter(version);
  result->set_allow_tensor_metadata_change(allow_change);
  return result;
}

c10::intrusive_ptr<c10::TensorImpl> TraceTensorImpl::shallow_copy_and_detach(
    c10::VariableVersion&& version, bool allow_change) const {
  // x.data is the one to ask for a version of its own and frozen geometry.
  auto result = copy(/*is_data=*/!allow_change);
  if (!result->is_inference()) result->set_version_counter(std::move(version));
  result->set_allow_tensor_metadata_change(allow_change);
  return result;
}

void TraceTensorImpl::shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& source) {
  if (observer.data_set) observer.data_set(*this, *source);
  const auto* from = as_trace(source.get());
  require(from != nullptr, "the data of a trace tensor was set to a real tensor");
  TensorImpl::shallow_copy_from(source);
  meta_ = at::Tensor(
      from->meta_.unsafeGetTensorImpl()->shallow_copy_and_detach(version_for(from->meta_), true));
  device_ = from->device_;
}

bool is_missing_data(const std::exception& error) {
  return std::string_view(error.what()).find("its data is not allocated yet") !=
         std::string_view::npos;
}

at::Tensor make_meta(const c10::Storage& storage, caffe2::TypeMeta dtype, at::IntArrayRef sizes,
                     at::IntArrayRef strides, int64_t offset) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::Meta), dtype);
  impl->set_sizes_and_strides(sizes, strides, offset);
  return at::Tensor(std::move(impl));
}

c10::Storage make_meta_storage(int64_t nbytes, void* memory) {
  auto* allocator = c10::GetAllocator(c10::kMeta);
  auto pointer =
      memory ? c10::DataPtr(memory, c10::Device(c10::kMeta)) : allocator->allocate(nbytes);
  return {c10::Storage::use_byte_size_t(), c10::SymInt(nbytes), std::move(pointer), allocator,
          /*resizable=*/true};
}

namespace {
void keep(void*) {}
}  // namespace

uint64_t storage_tag(const c10::Storage& storage) {
  const auto& pointer = storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  return pointer.get_deleter() == &keep ? reinterpret_cast<uint64_t>(pointer.get_context()) : 0;
}

void set_storage_tag(const c10::Storage& storage, uint64_t tag) {
  // A meta storage has no data for its pointer to own: the context is free to hold the tag.
  auto& pointer = storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  pointer =
      c10::DataPtr(pointer.get(), reinterpret_cast<void*>(tag), &keep, c10::Device(c10::kMeta));
}

void take_memory_away(const c10::Storage& storage) {
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  auto& pointer = impl->_mutable_data_ptr_no_checks();
  pointer = c10::DataPtr(nullptr, pointer.get_context(), pointer.get_deleter(), pointer.device());
  impl->set_throw_on_mutable_data_ptr();
}

}  // namespace fulgurite
