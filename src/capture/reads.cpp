// Operators whose result depends on the data of their arguments.
#include "capture/state.h"
#include "torch/dispatch_state.h"

namespace fulgurite {
namespace {

bool is_mask(const c10::IValue& index) {
  if (!index.isTensor() || !index.toTensor().defined()) return false;
  const auto dtype = index.toTensor().scalar_type();
  return dtype == at::kBool || dtype == at::kByte;
}

bool has_mask(const c10::IValue& value) {
  if (!value.isList() || value.isTensorList()) return false;
  for (const c10::IValue& element : value.toListRef())
    if (is_mask(element)) return true;
  return false;
}

bool reads_data(const OpInfo& info, const c10::IValue* arguments) {
  if (info.mask_index)
    for (int i = 0; i < info.arguments; ++i)
      if (has_mask(arguments[i])) return true;
  // Where the parts of a composite operator need no data, it does not either.
  if (!info.facts->reads_data || (info.composite && info.returns_tensor)) return false;
  return info.output_size_arg < 0 || arguments[info.output_size_arg].isNone();
}

uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0
                               : tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

class Reader {
 public:
  Reader(Tracer::State& state, const c10::OperatorHandle& op, const OpInfo& info,
         torch::jit::Stack* stack)
      : state_(state),
        op_(op),
        info_(info),
        stack_(stack),
        arguments_(stack->data() + stack->size() - info.arguments) {}

  bool run() {
    if (info_.mask_index) return masks_to_indices();
    if (gives_number()) return true;
    for (int i = 0; i < info_.arguments; ++i)
      for_each_tensor(arguments_[i], [&](const at::Tensor& t) { want(t); });
    CaptureOff off;
    op_.callBoxed(stack_);
    return true;
  }

 private:
  // The data of `tensor` must be there.
  void want(const at::Tensor& tensor) {
    if (is_number(tensor)) return;
    const bool traced = as_trace(tensor) || tensor.key_set().has(kMark);
    if (traced || state_.is_written(tensor)) refuse(tensor);
    state_.note_read(tensor);
  }

  // A Scalar need not be known as long as it is only computed with.
  bool gives_number() {
    const auto& returns = op_.schema().returns();
    if (returns.size() != 1 || returns[0].type()->kind() != c10::TypeKind::NumberType) return false;
    const at::Tensor tensor = arguments_[0].toTensor();
    const auto number = number_in(tensor, /*lift=*/false);
    if (!number && !state_.begin_selection(tensor)) return false;
    stack_->resize(stack_->size() - info_.arguments);
    stack_->emplace_back(number ? symbolic(*number, name()) : c10::Scalar(0));
    return true;
  }

  std::string name() const {
    return (state_.frame ? *state_.frame->call.op.aten : op_).schema().name();
  }

  // x[mask] is x[mask.nonzero()]: what is real of it can be known.
  bool masks_to_indices() {
    for (int i = 0; i < info_.arguments; ++i) {
      if (!has_mask(arguments_[i])) continue;
      c10::List<std::optional<at::Tensor>> indices;
      for (const c10::IValue& element : arguments_[i].toListRef()) {
        if (!is_mask(element)) {
          indices.push_back(element.toOptional<at::Tensor>());
          continue;
        }
        want(element.toTensor());
        CaptureOff off;
        for (const at::Tensor& index : element.toTensor().nonzero_numpy()) indices.push_back(index);
      }
      (*stack_)[stack_->size() - info_.arguments + i] = std::move(indices);
    }
    return false;
  }

  [[noreturn]] void refuse(const at::Tensor& tensor) {
    state_.refuse_data(name(), tensor, info_.mask_index || info_.returns_tensor);
  }

  Tracer::State& state_;
  const c10::OperatorHandle& op_;
  const OpInfo& info_;
  torch::jit::Stack* stack_;
  const c10::IValue* arguments_;
};

}  // namespace

void Tracer::State::refuse_data(const std::string& reader, const at::Tensor& tensor,
                                bool gives_tensor) {
  const std::string text =
      fmt::format("{} needs the data of a tensor that {}: {}", reader,
                  as_trace(tensor) ? "is only being traced" : "was written to during capture",
                  describe_trace_tensor(tensor));
  const std::string instead =
      gives_tensor
          ? "use an operator whose result has a fixed shape (torch.where, masked_fill, a mask "
            "that is multiplied), or leave this part out of the captured function"
          : "use torch.where instead of a Python condition, keep the value as a tensor, or leave "
            "this part out of the captured function";
  if (!frame) tracer->refuse(text, instead);
  // The call that asked for it may be able to do without.
  wanted_data = refusal_of(text, instead);
  throw *wanted_data;
}

bool Tracer::State::read_data(const c10::OperatorHandle& op, const OpInfo& info,
                              torch::jit::Stack* stack) {
  if (!info.mask_index && !info.facts->reads_data) [[likely]]
    return false;
  if (!reads_data(info, stack->data() + stack->size() - info.arguments)) return false;
  if (!frame && record_check(op, stack)) return true;
  return Reader(*this, op, info, stack).run();
}

bool Tracer::State::record_check(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const bool is_question = schema.arguments().size() == 1 && schema.returns().size() == 1 &&
                           schema.returns()[0].type()->kind() == c10::TypeKind::BoolType;
  std::string error;
  if (!is_question || !as_trace(stack->back().toTensor())) return false;
  if (!language_hooks().check || !language_hooks().check(error)) return false;
  record_internal(*this, "fulgurite::check_false", {stack->back(), error});
  stack->back() = false;
  return true;
}

void Tracer::State::note_read(const at::Tensor& real) {
  if (!constants.contains(real.unsafeGetTensorImpl()))
    data_reads.push_back({real, version_of(real)});
}

void Tracer::read_data(const at::Tensor& real, const std::string& how) {
  if (as_trace(real) || state_->is_written(real))
    refuse(fmt::format("{} reads the data of a tensor that {}", how,
                       as_trace(real) ? "is only being traced" : "was written to during capture"),
           "keep the computation in torch operators, or leave this part out of the captured "
           "function");
  state_->note_read(real);
}

bool Tracer::State::keep_constant(const c10::OperatorHandle& op, const OpInfo& info,
                                  torch::jit::Stack* stack) {
  if (!info.ends_constant && (constants.empty() || !info.facts->changes_metadata)) [[likely]]
    return false;
  const c10::IValue& first = stack->at(stack->size() - info.arguments);
  if (!first.isTensor() || !first.toTensor().defined()) return false;
  const at::Tensor tensor = first.toTensor();
  const auto* impl = tensor.unsafeGetTensorImpl();
  if (as_trace(tensor) || is_number(tensor) || trace_of.contains(impl) || is_written(tensor))
    return false;
  if (info.ends_constant) {
    if (tensor.requires_grad() || tensor.is_view()) return false;
    constants.emplace(impl, tensor);
    return true;
  }
  // torch.tensor(...).unsqueeze_(0): of nobody's concern until it meets a traced tensor.
  bool traced = !constants.contains(impl);
  for_each_tensor(torch::jit::last(*stack, info.arguments),
                  [&](const at::Tensor& t) { traced |= as_trace(t) != nullptr; });
  if (traced) return false;
  CaptureOff off;
  op.callBoxed(stack);
  return true;
}

}  // namespace fulgurite
