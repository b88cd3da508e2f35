// One operator call below autograd: a primitive.
#include "capture/state.h"

#include <ATen/EmptyTensor.h>

#include "capture/infer.h"
#include "capture/origins.h"
#include "ops/meta.h"
#include "torch/memory_overlap.h"

namespace fulgurite {
namespace {

// A meta tensor given to the meta kernel, and the caller's tensor that it stands for.
struct Passed {
  const c10::TensorImpl* meta;
  const at::Tensor* given;
};
using PassedList = c10::SmallVector<Passed, 6>;

class Recording {
 public:
  Recording(Tracer::State& state, const c10::OperatorHandle& op, const OpInfo& info,
            torch::jit::Stack* stack)
      : state_(state),
        op_(op),
        info_(info),
        stack_(stack),
        first_(stack->size() - info.arguments),
        given_(stack->data() + first_) {}

  void run() {
    const bool primitive = state_.frame && state_.is_frame_itself(op_, given_);
    call_.op = info_.recorded_as.value_or(op_);
    call_.mode = current_grad_mode();
    if (!primitive)
      for (int i = 0; i < info_.arguments; ++i) call_.args.push_back(argument(given_[i]));
    infer_results();
    note_writes(primitive ? state_.frame->call : call_);
    take_results();
    stack_->resize(first_);
    stack_->insert(stack_->end(), std::make_move_iterator(meta_.begin()),
                   std::make_move_iterator(meta_.end()));
    if (primitive) {
      state_.frame->primitive = true;
      state_.frame->primitive_results = std::move(call_.results);
    } else {
      state_.add(std::move(call_));
    }
  }

 private:
  Arg argument(const c10::IValue& value) {
    return to_arg(value, [&](const at::Tensor& t) { return state_.id_of(t); });
  }

  at::Tensor to_meta(const at::Tensor& given, CommonDevice& device, bool is_index) {
    if (is_number(given)) return given;
    auto* trace = as_trace(state_.to_trace(given));
    if (trace->fillable) [[unlikely]]
      state_.settle_fill(*trace);
    device.add(trace, trace->real_device(), is_index);
    passed_.push_back({trace->meta().unsafeGetTensorImpl(), &given});
    return trace->meta();
  }

  void infer_results() {
    CommonDevice device(info_);
    meta_.reserve(info_.arguments + 1);
    for (int i = 0; i < info_.arguments; ++i) {
      const bool is_index = given_[i].isList() && !given_[i].isTensorList();
      meta_.push_back(map_tensors(
          given_[i], [&](const at::Tensor& t) { return to_meta(t, device, is_index); }));
    }
    device_ = to_meta_arguments(info_, device.get(), meta_.data());
    try {
      if (std::any_of(meta_.begin(), meta_.end(), is_symbolic)) infer_for_another_number();
      infer(op_, &meta_);
    } catch (const Unsupported& declined) {  // by a rule of ours
      state_.tracer->refuse(
          fmt::format("{} cannot be captured: {}", op_.schema().name(), declined.what()),
          "leave this part out of the captured function");
    } catch (const c10::NotImplementedError& error) {
      if (meta_rule(op_))
        state_.tracer->refuse(
            fmt::format("{}: {}", op_.schema().name(), error.what_without_backtrace()),
            "leave this part out of the captured function");
      state_.inference_failed = true;
      state_.tracer->refuse(
          fmt::format("{} has no rule for the types of its results", op_.schema().name()),
          "register one with torch.library.register_fake (a kernel for the Meta key in C++), or "
          "leave this part out of the captured function");
    } catch (...) {
      state_.inference_failed = true;
      throw;
    }
    if (other_ && *other_ != types(meta_))
      state_.tracer->refuse(
          fmt::format("the shape of what {} gives depends on a number that is read from a tensor",
                      op_.schema().name()),
          "take the number from an argument of the captured function");
  }

  // What is known of numbers of the trace is that they are numbers.
  void infer_for_another_number() {
    torch::jit::Stack other;
    for (c10::IValue& value : meta_) {
      other.push_back(with_hints(value, 0.0));
      value = with_hints(value, 1.0);
    }
    infer(op_, &other);
    other_ = types(other);
  }

  using Types = std::vector<std::pair<c10::ScalarType, std::vector<int64_t>>>;
  static Types types(const torch::jit::Stack& results) {
    Types all;
    for_each_tensor(c10::ArrayRef<c10::IValue>(results), [&](const at::Tensor& t) {
      all.emplace_back(t.scalar_type(), t.sizes().vec());
    });
    return all;
  }

  void note_writes(const Call& call) {
    if (info_.facts->written.empty()) [[likely]]
      return;
    for (int i : written_args(call))
      for_each_tensor(given_[i], [&](const at::Tensor& given) {
        if (is_number(given)) return;
        // Not to_trace(): what the call has just changed is no change through another name.
        auto* trace = as_trace(given) ? as_trace(given) : as_trace(state_.to_trace(given));
        state_.note_written(state_.storage_id(trace->meta().storage()));
        if (given_[i].isTensor()) refuse_overlap(i, trace->meta());
        if (trace->differs_from_meta()) note_retyped(*trace, given);
      });
  }

  // Functions of a trace read all before they write. (Lists are worked through one tensor after the
  // other: their bodies have the order.)
  void refuse_overlap(int written, const at::Tensor& meta) const {
    for (int i = 0; i < info_.arguments; ++i) {
      if (i == written) continue;
      for_each_tensor(given_[i], [&](const at::Tensor& given) {
        if (is_number(given)) return;
        const at::Tensor& other = as_trace(state_.to_trace(given))->meta();
        const bool in_place = info_.elementwise && have_same_elements(meta, other);
        // Fills take the number out of their tensor before anything else.
        const bool number = other.dim() == 0 && op_.schema().arguments()[i].name() == "value";
        if (!in_place && !number && have_common_memory(meta, other))
          state_.tracer->refuse(
              fmt::format("{} writes to memory that it also takes as {}: what it gives depends on "
                          "the order in which its kernel goes through it",
                          op_.schema().name(), op_.schema().arguments()[i].name()),
              "pass a clone() of that argument");
      });
    }
  }

  void note_retyped(TraceTensorImpl& trace, const at::Tensor& given) {
    if (!as_trace(given))
      state_.tracer->refuse(
          fmt::format("{} changes the shape or the memory of a tensor that is not an argument of "
                      "the captured function",
                      call_.op.name()),
          "make it an argument, or change a copy of it");
    trace.mirror();
    TensorType type = state_.describe(trace.meta(), trace.real_device());
    type.requires_grad = state_.trace.values[trace.id].type.requires_grad;
    state_.retyped[trace.id] = type;
    if (state_.frame && trace.id < state_.frame->first_value)
      state_.frame->call.retyped.push_back({trace.id, type});
    call_.retyped.push_back({trace.id, std::move(type)});
  }

  // The argument that a result is a view of, or null.
  const at::Tensor* viewed_by(const at::Tensor& meta) const {
    for (const Passed& passed : passed_)
      if (passed.meta->storage().is_alias_of(meta.storage())) return passed.given;
    return nullptr;
  }

  // Of meta tensors torch does not check it.
  static void require_in_bounds(const at::Tensor& view) {
    const size_t needed = at::detail::computeStorageNbytes(
        view.sizes(), view.strides(), view.itemsize(), static_cast<size_t>(view.storage_offset()));
    TORCH_CHECK(needed <= view.storage().nbytes() || !view.numel(), "a view of ", needed,
                " bytes is out of bounds for storage of size ", view.storage().nbytes());
  }

  at::Tensor result(const at::Tensor& meta) {
    // The operator returned (and perhaps changed) one of its arguments.
    for (const Passed& passed : passed_)
      if (passed.meta == meta.unsafeGetTensorImpl()) return *passed.given;
    state_.require_plain(meta);
    if (info_.gives_raw_memory)
      if (at::Tensor tensor = state_.wrap_fillable(meta, device_); tensor.defined()) return tensor;
    const at::Tensor* viewed = viewed_by(meta);
    if (viewed) require_in_bounds(meta);
    // A view is of inference mode if what it views is.
    return state_.wrap(
        meta, device_,
        viewed ? state_.to_trace(*viewed).is_inference() : c10::InferenceMode::is_enabled());
  }

  void take_results() {
    call_.results.reserve(meta_.size());
    for (c10::IValue& value : meta_) {
      value = map_tensors(value, [&](const at::Tensor& t) { return result(t); });
      call_.results.push_back(argument(value));
    }
  }

  Tracer::State& state_;
  const c10::OperatorHandle& op_;
  const OpInfo& info_;
  torch::jit::Stack* stack_;
  const size_t first_;
  const c10::IValue* given_;
  torch::jit::Stack meta_;
  std::optional<Types> other_;
  PassedList passed_;
  c10::Device device_ = c10::Device(c10::kCPU);
  Call call_;
};

}  // namespace

void Tracer::State::record(const c10::OperatorHandle& op, const OpInfo& info,
                           torch::jit::Stack* stack) {
  Recording(*this, op, info, stack).run();
}

void Tracer::State::add(Call call) {
  if (!frame) {
    note_place(call);
    trace.calls.push_back(std::move(call));
    return;
  }
  frame->open_primitive();
  frame->call.body.push_back(std::move(call));
}

void Tracer::State::note_place(Call& call) {
  if (Origins* origins = Origins::active()) {
    call.source = origins->note();
    return;
  }
  LanguageHooks::Place place;
  if (!language_hooks().place || !language_hooks().place(place)) return;
  if (place.code) {
    const uint64_t key =
        reinterpret_cast<uint64_t>(place.code) * 0x9e3779b97f4a7c15u + place.instruction;
    auto [it, fresh] = source_of.try_emplace(key, static_cast<int32_t>(places.size()));
    if (fresh) places.push_back(place);
    call.source = it->second;
  }
  if (place.module) {
    auto [it, fresh] = module_of.try_emplace(place.module, static_cast<int32_t>(modules.size()));
    if (fresh) modules.push_back(place);
    call.module = it->second;
  }
}

void Tracer::State::name_places(Trace& captured) {
  const LanguageHooks& hooks = language_hooks();
  if (hooks.source)
    for (const LanguageHooks::Place& place : places)
      captured.sources.push_back(hooks.source(place));
  if (hooks.module_path)
    for (const LanguageHooks::Place& place : modules)
      captured.modules.push_back(hooks.module_path(place));
}

at::Tensor record_internal(Tracer::State& state, const char* name,
                           std::vector<c10::IValue> arguments) {
  const c10::OperatorHandle op = find_op(name);
  torch::jit::Stack stack(std::move(arguments));
  state.record(op, op_info(op), &stack);
  return stack.empty() ? at::Tensor() : stack[0].toTensor();
}

}  // namespace fulgurite
