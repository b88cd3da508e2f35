// Memory that the program fills by its pointer: at::tensor({1, 2}) in C++ allocates by an operator,
// and writes the numbers without one. Small tensors get memory for that until an operator uses
// them; what was written then becomes a constant of the program.
#include <algorithm>
#include <cstring>
#include <random>

#include "capture/state.h"
#include "torch/dispatch_state.h"

namespace fulgurite {
namespace {

constexpr size_t kLargest = 64 * 1024;

// Bytes that nobody would write: unpredictable, and no bool.
std::vector<char> unlikely_bytes(size_t n) {
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::vector<char> bytes(n);
  for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
    const uint64_t eight = random() | 0x8080808080808080u;
    std::memcpy(&bytes[i], &eight, std::min(sizeof eight, n - i));
  }
  return bytes;
}

// Of so few bytes that they could be as they were made by chance, all count as filled.
bool is_filled(const std::vector<char>& memory, const std::vector<char>& before,
               c10::ScalarType dtype) {
  return memory != before || (memory.size() < 4 && dtype != at::kBool);
}

}  // namespace

at::Tensor Tracer::State::wrap_fillable(const at::Tensor& meta, c10::Device device) {
  const size_t bytes = meta.storage().nbytes();
  if (!device.is_cpu() || bytes == 0 || bytes > kLargest || !meta.is_contiguous()) return {};
  Fillable fill;
  fill.before = fill.memory = unlikely_bytes(bytes);
  fill.meta = make_meta_storage(static_cast<int64_t>(bytes), fill.memory.data());
  const at::Tensor over_memory =
      make_meta(fill.meta, meta.dtype(), meta.sizes(), meta.strides(), 0);
  const ValueId id = add_value(trace, describe(over_memory, device));
  fillable.emplace(id, std::move(fill));
  return at::Tensor(TraceTensorImpl::make(over_memory, id, serial, device,
                                          c10::InferenceMode::is_enabled(), /*fillable=*/true));
}

void Tracer::State::settle_fill(TraceTensorImpl& tensor) {
  tensor.fillable = false;
  const auto node = fillable.extract(tensor.id);
  if (node.empty()) return;
  const Fillable& fill = node.mapped();
  take_memory_away(fill.meta);
  const auto dtype = tensor.meta().scalar_type();
  if (!is_filled(fill.memory, fill.before, dtype)) return;
  at::Tensor data;
  {
    CaptureOff off;
    data = at::empty(tensor.meta().sizes(), dtype);
    std::copy(fill.memory.begin(), fill.memory.end(), static_cast<char*>(data.data_ptr()));
  }
  auto self = c10::intrusive_ptr<c10::TensorImpl>::unsafe_reclaim_from_nonowning(&tensor);
  record_internal(*this, "aten::copy_", {at::Tensor(std::move(self)), data, false});
}

void Tracer::State::settle_fills() {
  for (const auto& [id, fill] : fillable) take_memory_away(fill.meta);
}

}  // namespace fulgurite
