#include "ir/structure.h"

#include <bit>
#include <cstring>

#include "ir/literal.h"

namespace fulgurite {

std::pair<int32_t, bool> Structure::Numbering::of(int32_t id) {
  const auto place = static_cast<size_t>(id);
  if (place >= numbers.size()) numbers.resize(place + place / 2 + 64, -1);
  const bool fresh = numbers[place] < 0;
  if (fresh) {
    numbers[place] = static_cast<int32_t>(met.size());
    met.push_back(id);
  }
  return {numbers[place], fresh};
}

void Structure::Numbering::forget() {
  for (int32_t id : met) numbers[id] = -1;
  met.clear();
}

std::optional<std::string> Structure::of(const Trace& trace, std::span<const Call* const> calls,
                                         c10::ArrayRef<ValueId> inputs,
                                         c10::ArrayRef<ValueId> outputs) {
  bytes_.clear();
  complete_ = true;
  for (const auto& ids : {inputs, outputs}) {
    add(static_cast<int64_t>(ids.size()));
    for (ValueId id : ids) add(trace, id);
  }
  for (const Call* call : calls) add(trace, *call);
  values_.forget();
  storages_.forget();
  if (!complete_) return std::nullopt;
  return bytes_;
}

void Structure::add(const Trace& trace, const Call& call) {
  complete_ &= call.op.aten.has_value() && call.retyped.empty() && !call.gradient;
  if (!complete_) return;
  add(std::bit_cast<int64_t>(&call.op.aten->schema()));
  add(static_cast<int64_t>(call.mode));
  add(trace, call.args);
  add(trace, call.results);
  add(static_cast<int64_t>(call.body.size()));
  for (const Call& inner : call.body) add(trace, inner);
}

void Structure::add(const Trace& trace, const std::vector<Arg>& args) {
  add(static_cast<int64_t>(args.size()));
  for (const Arg& arg : args) {
    add(static_cast<int64_t>(arg.kind));
    if (arg.kind == Arg::Kind::Constant) {
      add(arg.constant);
      continue;
    }
    if (arg.kind == Arg::Kind::ValueList) add(static_cast<int64_t>(arg.values.size()));
    for (ValueId id : arg.values) add(trace, id);
  }
}

void Structure::add(const Trace& trace, ValueId id) {
  if (id == kNoValue) return add(int64_t{-1});
  const auto [number, fresh] = values_.of(id);
  add(int64_t{number});
  if (fresh) add(type_of(trace, id));
}

void Structure::add(const TensorType& type) {
  add(static_cast<int64_t>(type.dtype) << 32 | static_cast<int64_t>(type.device.type()) << 16 |
      static_cast<int64_t>(static_cast<uint8_t>(type.device.index())) << 8 |
      static_cast<int64_t>(type.requires_grad) << 2 | static_cast<int64_t>(type.conj) << 1 |
      static_cast<int64_t>(type.neg));
  add(type.storage == kNoStorage ? int64_t{-1} : int64_t{storages_.of(type.storage).first});
  add(type.offset);
  add(type.nbytes);
  add(static_cast<int64_t>(type.sizes.size()));
  for (int64_t size : type.sizes) add(size);
  for (int64_t stride : type.strides) add(stride);
}

void Structure::add(const c10::IValue& constant) {
  enum : int64_t { kNone, kBool, kInt, kDouble, kString, kList, kTensor, kDevice };
  if (constant.isNone()) {
    add(int64_t{kNone});
  } else if (constant.isBool()) {
    add(int64_t{kBool});
    add(int64_t{constant.toBool()});
  } else if (constant.isInt()) {
    add(int64_t{kInt});
    add(constant.toInt());
  } else if (constant.isDouble()) {
    add(int64_t{kDouble});
    add(std::bit_cast<int64_t>(constant.toDouble()));
  } else if (constant.isString()) {
    const std::string& text = constant.toStringRef();
    add(int64_t{kString});
    add(static_cast<int64_t>(text.size()));
    bytes_ += text;
  } else if (constant.isList()) {
    const auto elements = constant.toListRef();
    add(int64_t{kList});
    add(static_cast<int64_t>(elements.size()));
    for (const c10::IValue& element : elements) add(element);
  } else if (constant.isTensor() && constant.toTensor().defined() &&
             constant.toTensor().dim() == 0) {
    const at::Tensor& number = constant.toTensor();
    add(int64_t{kTensor});
    add(static_cast<int64_t>(number.scalar_type()));
    add(wrapped_number(number));
  } else if (constant.isDevice()) {
    add(int64_t{kDevice});
    add(int64_t{static_cast<int>(constant.toDevice().type())});
    add(int64_t{constant.toDevice().index()});
  } else {
    complete_ = false;
  }
}

void Structure::add(int64_t word) {
  char bytes[sizeof word];
  std::memcpy(bytes, &word, sizeof word);
  bytes_.append(bytes, sizeof word);
}

}  // namespace fulgurite
