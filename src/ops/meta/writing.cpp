#include "ops/meta/writing.h"

#include <ATen/native/Resize.h>

#include "ops/facts.h"
#include "ops/meta.h"

namespace fulgurite::meta {
namespace {

using c10::IValue;
using torch::jit::Stack;

void receive(const IValue& argument, const IValue& result, bool is_out) {
  if (argument.isNone()) return;
  const Tensor& target = argument.toTensor();
  const Tensor& value = result.toTensor();
  TORCH_CHECK(c10::canCast(value.scalar_type(), target.scalar_type()), "result type ",
              value.scalar_type(), " can't be cast to the desired output type ",
              target.scalar_type());
  if (is_out) return take_geometry(target, value);
  TORCH_CHECK(target.sizes() == value.sizes(), "output with shape ", target.sizes(),
              " doesn't match the broadcast shape ", value.sizes());
}

class WritingKernel final : public c10::OperatorKernel {
 public:
  WritingKernel(FunctionalForm form, const c10::KernelFunction& rule)
      : form_(std::move(form)), rule_(rule) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const auto& schema = op.schema();
    const OpFacts& facts = facts_of(op);
    const size_t first = stack->size() - schema.arguments().size();
    Stack args(std::make_move_iterator(stack->begin() + first),
               std::make_move_iterator(stack->end()));
    stack->resize(first);
    Stack results;
    for (int i : form_.arg_of) results.push_back(args[i]);
    rule_.callBoxed(form_.op, keys, &results);
    const size_t plain = facts.plain_returns.size();
    for (size_t i = 0; i < facts.written.size(); ++i)
      receive(args[facts.written[i]], results[plain + i],
              schema.arguments()[facts.written[i]].is_out());
    size_t next_plain = 0, next_written = 0;
    for (const c10::Argument& returned : schema.returns()) {
      const bool written = returned.alias_info() && returned.alias_info()->isWrite();
      stack->push_back(written ? args[facts.written[next_written++]]
                               : std::move(results[next_plain++]));
    }
  }

 private:
  FunctionalForm form_;
  c10::KernelFunction rule_;
};

}  // namespace

void take_geometry(const Tensor& out, const Tensor& result) {
  if (out.sizes() == result.sizes()) return;
  at::native::resize_output_check(out, result.sizes());
  c10::TensorImpl* impl = out.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(result.sizes(), result.strides(), out.storage_offset());
  const size_t bytes = at::detail::computeStorageNbytes(result.sizes(), result.strides(),
                                                        out.itemsize(), out.storage_offset());
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (out.numel() > 0 && storage->nbytes() < bytes) storage->set_nbytes(bytes);
}

std::optional<c10::KernelFunction> rule_for_writes(const c10::OperatorHandle& op) {
  const auto& form = functional_form(op);
  if (!form || facts_of(op).hidden_write_flag) return {};
  for (int i : facts_of(op).written)
    if (op.schema().arguments()[i].type()->kind() != c10::TypeKind::TensorType) return {};
  const c10::KernelFunction* rule = meta_rule(form->op);
  if (!rule) return {};
  return c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<WritingKernel>(*form, *rule));
}

}  // namespace fulgurite::meta
