// The tensor that a traced program works on: geometry, no data.
#pragma once

#include <ATen/ATen.h>

#include "torch/keys.h"

namespace fulgurite {

// Has the key set of its real backend (so that is_cuda, autograd and autocast are right) and kMark.
// Its geometry mirrors an inner meta tensor, whose storage it shares.
class TraceTensorImpl final : public c10::TensorImpl {
 public:
  // `fillable`: its memory may be written by pointer.
  TraceTensorImpl(at::Tensor meta, int32_t id, uint64_t owner, c10::Device device,
                  bool fillable = false);
  // The same; `inference`: as made in inference mode, whatever the mode is now.
  static c10::intrusive_ptr<TraceTensorImpl> make(at::Tensor meta, int32_t id, uint64_t owner,
                                                  c10::Device device, bool inference,
                                                  bool fillable = false);

  // Takes over the geometry of the inner meta tensor after a call changed it.
  void mirror();
  // Whether it has to.
  bool differs_from_meta() const;

  c10::Device device_custom() const override { return device_; }
  const char* tensorimpl_type_name() const override { return "TraceTensorImpl"; }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& source) override;

  // From now on it says that it is not contiguous, whatever its strides: who asks makes a copy.
  void hide_layout();
  c10::SymBool sym_is_contiguous_custom(at::MemoryFormat format) const override;

  const at::Tensor& meta() const { return meta_; }
  c10::Device real_device() const { return device_; }

  int32_t id;                       // the value's number
  const uint64_t owner;             // the serial number of the tracer
  mutable bool has_copies = false;  // others with the same number may have another geometry
  bool fillable;                    // by pointer, until an operator uses it

  // Told of what torch does without calling an operator.
  struct Observer {
    // x.data: the number of the new tensor.
    int32_t (*data_taken)(const TraceTensorImpl& tensor) = nullptr;
    // x.data = source, before it happens.
    void (*data_set)(TraceTensorImpl& tensor, TensorImpl& source) = nullptr;
  };
  static Observer observer;

 private:
  c10::intrusive_ptr<TraceTensorImpl> copy(bool is_data) const;

  at::Tensor meta_;
  c10::Device device_;
  bool layout_hidden_ = false;
};

// Null for a real tensor, an undefined one, and one that merely has the key (a real tensor whose
// .data was set to a trace tensor).
inline TraceTensorImpl* as_trace(const c10::TensorImpl* impl) {
  if (!impl->key_set().has(kMark) || typeid(*impl) != typeid(TraceTensorImpl)) return nullptr;
  return static_cast<TraceTensorImpl*>(const_cast<c10::TensorImpl*>(impl));
}
inline TraceTensorImpl* as_trace(const at::TensorBase& tensor) {
  return as_trace(tensor.unsafeGetTensorImpl());
}

// Torch's own code went to the memory of a trace tensor.
bool is_missing_data(const std::exception& error);

// A meta tensor over `storage`.
at::Tensor make_meta(const c10::Storage& storage, caffe2::TypeMeta dtype, at::IntArrayRef sizes,
                     at::IntArrayRef strides, int64_t offset);

// A meta storage of so many bytes; `memory`, if any, is where its data pointer points, and stays
// the caller's.
c10::Storage make_meta_storage(int64_t nbytes, void* memory = nullptr);

// From now on, to ask for the data pointer of this storage is an error.
void take_memory_away(const c10::Storage& storage);

// A tag on a meta storage, which it keeps for life; 0 while it has none.
uint64_t storage_tag(const c10::Storage& storage);
void set_storage_tag(const c10::Storage& storage, uint64_t tag);

}  // namespace fulgurite
