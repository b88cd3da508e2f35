#include "capture/probe.h"

#include "capture/replay.h"
#include "torch/dispatch_state.h"

namespace fulgurite {
namespace {

const TensorType& type_now(const Tracer::State& state, ValueId id) {
  const auto changed = state.retyped.find(id);
  return changed == state.retyped.end() ? type_of(state.trace, id) : changed->second;
}

bool overlaps_itself(const TensorType& type) {
  for (size_t d = 0; d < type.sizes.size(); ++d)
    if (type.sizes[d] > 1 && type.strides[d] == 0) return true;
  return false;
}

// Real tensors for the values of a trace.
class Ones {
 public:
  Ones(const Tracer::State& state, std::vector<at::Tensor>& env) : state_(state), env_(env) {
    env_.assign(state.trace.values.size(), {});
    for (const auto& argument : state.arguments)
      real_[trace_value(argument.traced)] = argument.real;
    for (const Lifted& lifted : state.lifted) real_[lifted.id] = lifted.real;
  }

  void make(ValueId id) {
    if (env_[id].defined()) return;
    const TensorType& type = type_now(state_, id);
    const auto options = at::TensorOptions().dtype(type.dtype);
    at::Tensor& memory = memory_[type.storage];
    if (!memory.defined())
      memory =
          at::ones({type.nbytes / static_cast<int64_t>(c10::elementSize(type.dtype))}, options);
    at::Tensor tensor =
        at::empty({0}, options).set_(memory.storage(), type.offset, type.sizes, type.strides);
    if (type.conj) tensor._set_conj(true);
    if (type.neg) tensor._set_neg(true);
    const auto real = real_.find(id);
    if (real != real_.end() && c10::isIntegralType(type.dtype, true) &&
        real->second.sizes() == tensor.sizes() && !overlaps_itself(type))
      tensor.copy_(real->second);
    if (type.requires_grad) tensor.set_requires_grad(true);
    env_[id] = std::move(tensor);
  }

 private:
  const Tracer::State& state_;
  std::vector<at::Tensor>& env_;
  std::unordered_map<ValueId, at::Tensor> real_;
  std::unordered_map<StorageId, at::Tensor> memory_;
};

bool same_place(const TensorType& a, const TensorType& b) {
  return a.offset == b.offset && a.sizes == b.sizes && a.strides == b.strides && a.dtype == b.dtype;
}

bool may_overlap(const Tracer::State& state, const OpInfo& info, const Call& call) {
  for (int i : info.facts->written) {
    if (call.args[i].kind != Arg::Kind::Value) continue;
    const TensorType& written = type_now(state, call.args[i].values[0]);
    if (overlaps_itself(written)) return true;
    for (size_t k = 0; k < call.args.size(); ++k) {
      if (call.args[k].kind != Arg::Kind::Value || static_cast<int>(k) == i) continue;
      const TensorType& other = type_now(state, call.args[k].values[0]);
      if (other.storage != written.storage) continue;
      // Element by element, a write may take the place of what is read.
      if (!info.promotes_dtypes || !same_place(other, written)) return true;
    }
  }
  return false;
}

bool mixes_dtypes(const Tracer::State& state, const Call& call) {
  std::optional<c10::ScalarType> first;
  for (const Arg& arg : call.args) {
    if (arg.kind != Arg::Kind::Value) continue;
    const TensorType& type = type_now(state, arg.values[0]);
    if (type.sizes.empty() || !c10::isFloatingType(type.dtype)) continue;
    if (first && *first != type.dtype) return true;
    first = type.dtype;
  }
  return false;
}

}  // namespace

bool can_run_on_ones(const Tracer::State& state, const Call& call) {
  const OpFacts& facts = facts_of(*call.op.aten);
  if (facts.random || facts.is_assert || call.op.name().rfind("aten::", 0) != 0) return false;
  bool on_cpu = true;
  for_each_value(call.args, [&](ValueId id) { on_cpu &= type_now(state, id).device.is_cpu(); });
  return on_cpu;
}

torch::jit::Stack run_on_ones(const Tracer::State& state, const Call& call,
                              std::vector<at::Tensor>& env) {
  CaptureOff off;
  NoAutocast exact;
  {
    c10::AutoGradMode quiet(false);
    Ones ones(state, env);
    for_each_value(call.args, [&](ValueId id) { ones.make(id); });
  }
  torch::jit::Stack stack;
  push_args(call, env, stack);
  call.op.aten->callBoxed(stack);
  return stack;
}

bool has_type_of(const Tracer::State& state, ValueId id, const at::Tensor& tensor) {
  const TensorType& type = type_now(state, id);
  return at::IntArrayRef(type.sizes) == tensor.sizes() &&
         at::IntArrayRef(type.strides) == tensor.strides() &&
         type.offset == tensor.storage_offset();
}

void check_on_ones(const Tracer::State& state, const OpInfo& info, const Call& call) {
  const bool doubtful = info.writes ? may_overlap(state, info, call)
                                    : !info.promotes_dtypes && mixes_dtypes(state, call);
  if (!doubtful || !can_run_on_ones(state, call)) return;
  c10::AutoGradMode quiet(false);
  std::vector<at::Tensor> env;
  run_on_ones(state, call, env);
}

}  // namespace fulgurite
