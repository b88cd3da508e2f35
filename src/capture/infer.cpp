#include "capture/infer.h"

#include <algorithm>

#include "base/error.h"
#include "capture/arguments.h"
#include "capture/meta_call.h"
#include "ir/number_argument.h"
#include "torch/dispatch_state.h"
#include "torch/trace_tensor.h"

namespace fulgurite {
namespace {

// A call on values of a trace, run on meta tensors: one per value, over one storage per storage id.
class Emission {
 public:
  Emission(Trace& trace, const c10::OperatorHandle& op) : trace_(trace), info_(op_info(op)) {
    call_.op = op;
  }

  Call run(std::vector<Arg> args) {
    const auto& schema = call_.op.aten->schema();
    require(args.size() == static_cast<size_t>(info_.arguments), "{} takes {} arguments, given {}",
            schema.name(), info_.arguments, args.size());
    CommonDevice device(info_);
    torch::jit::Stack stack;
    for (size_t i = 0; i < args.size(); ++i)
      stack.push_back(to_ivalue(args[i], schema.arguments()[i], device));
    device_ = to_meta_arguments(info_, device.get(), stack.data());
    call_.args = std::move(args);
    infer(*call_.op.aten, &stack);
    for (const c10::IValue& value : stack)
      call_.results.push_back(to_arg(value, [&](const at::Tensor& t) { return result(t); }));
    for (auto& [id, meta] : metas_) note_retyped(id, meta);
    return std::move(call_);
  }

 private:
  const at::Tensor& meta(ValueId id, CommonDevice& device) {
    auto& meta = metas_[id];
    const TensorType& type = type_of(trace_, id);
    if (!meta.defined()) {
      auto& storage = storages_[type.storage];
      if (!storage) {
        storage = make_meta_storage(type.nbytes);
        set_storage_tag(storage, type.storage + 1);
      }
      meta = make_meta(storage, c10::scalarTypeToTypeMeta(type.dtype), type.sizes, type.strides,
                       type.offset);
      if (type.conj) meta._set_conj(true);
      if (type.neg) meta._set_neg(true);
      if (is_number(id)) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    device.add(meta.unsafeGetTensorImpl(), type.device, false);
    return meta;
  }

  // Made by the program's arithmetic: it counts as a number where dtypes are promoted.
  bool is_number(ValueId id) const {
    const TensorType& type = type_of(trace_, id);
    if (!type.sizes.empty() || type.dtype != c10::ScalarType::Double) return false;
    return std::any_of(trace_.calls.rbegin(), trace_.calls.rend(), [id](const Call& call) {
      return call.op.aten && (is_item(*call.op.aten) || is_arithmetic(*call.op.aten)) &&
             call.results[0].values[0] == id;
    });
  }

  c10::IValue to_ivalue(const Arg& arg, const c10::Argument& schema, CommonDevice& device) {
    if (arg.kind == Arg::Kind::Constant) return arg.constant;
    if (takes_number(schema)) return 1.0;
    if (takes_numbers(schema)) {
      c10::List<at::Scalar> numbers;
      numbers.resize(arg.values.size(), 1.0);
      return numbers;
    }
    if (arg.kind == Arg::Kind::Value) return meta(arg.values[0], device);
    if (!arg.optional_elements) {
      c10::List<at::Tensor> list;
      for (ValueId id : arg.values)
        list.push_back(id == kNoValue ? at::Tensor() : meta(id, device));
      return list;
    }
    c10::List<std::optional<at::Tensor>> list;
    for (ValueId id : arg.values)
      list.push_back(id == kNoValue ? std::nullopt : std::optional(meta(id, device)));
    return list;
  }

  TensorType describe(const at::Tensor& meta) {
    TensorType type = geometry_of(meta, device_);
    const uint64_t tag = storage_tag(meta.storage());
    type.storage = tag ? static_cast<StorageId>(tag) - 1 : trace_.storages++;
    if (!tag) set_storage_tag(meta.storage(), type.storage + 1);
    return type;
  }

  ValueId result(const at::Tensor& tensor) {
    for (auto& [id, meta] : metas_)
      if (meta.is_same(tensor)) return id;
    return add_value(trace_, describe(tensor));
  }

  void note_retyped(ValueId id, const at::Tensor& meta) {
    const TensorType& was = type_of(trace_, id);
    if (meta.sizes() == at::IntArrayRef(was.sizes) &&
        meta.strides() == at::IntArrayRef(was.strides) && meta.storage_offset() == was.offset &&
        storage_tag(meta.storage()) == static_cast<uint64_t>(was.storage + 1))
      return;
    TensorType type = describe(meta);
    type.device = was.device;
    type.requires_grad = was.requires_grad;
    call_.retyped.push_back({id, std::move(type)});
  }

  Trace& trace_;
  const OpInfo& info_;
  Call call_;
  c10::Device device_ = c10::Device(c10::kCPU);
  std::map<ValueId, at::Tensor> metas_;
  std::map<StorageId, c10::Storage> storages_;
};

}  // namespace

void infer(const c10::OperatorHandle& op, torch::jit::Stack* meta) {
  Inferring inferring;
  MetaOnly meta_only;
  call_meta_kernel(op, c10::DispatchKeySet(c10::DispatchKey::Meta), meta);
}

Call& emit(Trace& trace, const c10::OperatorHandle& op, std::vector<Arg> args) {
  Call call = Emission(trace, op).run(std::move(args));
  return trace.calls.emplace_back(std::move(call));
}

ValueId emit1(Trace& trace, const c10::OperatorHandle& op, std::vector<Arg> args) {
  const Call& call = emit(trace, op, std::move(args));
  require(call.results.size() == 1 && call.results[0].kind == Arg::Kind::Value,
          "{} does not have one tensor result", call.op.name());
  return call.results[0].values[0];
}

}  // namespace fulgurite
