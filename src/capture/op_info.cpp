#include "capture/op_info.h"

#include "ops/named_ops.h"
#include "ops/per_operator.h"
#include "torch/keys.h"

namespace fulgurite {
namespace {

bool is_op(const c10::OperatorHandle& op, const char* name) { return op.schema().name() == name; }

bool is_list_of_optional_tensors(const c10::TypePtr& type) {
  auto list = type->cast<c10::ListType>();
  return list && list->getElementType()->kind() == c10::TypeKind::OptionalType;
}

OpInfo make_op_info(const c10::OperatorHandle& op) {
  OpInfo info;
  const c10::FunctionSchema& schema = op.schema();
  info.facts = &facts_of(op);
  info.arguments = static_cast<int>(schema.arguments().size());
  info.returns = static_cast<int>(schema.returns().size());
  info.writes = schema.is_mutable();
  for (int i = 0; i < info.arguments; ++i) {
    const c10::Argument& arg = schema.arguments()[i];
    if (arg.name() == "output_size") info.output_size_arg = i;
    if (arg.name() == "non_blocking") info.mixes_devices = true;
    // The level of forward-mode differentiation: no other operator has one.
    if (arg.name() == "level" && arg.type()->kind() == c10::TypeKind::IntType)
      info.forward_ad = true;
    if (!info.writes && is_list_of_optional_tensors(arg.type()))
      for (at::Tag tag : op.getTags()) info.mask_index |= tag == at::Tag::dynamic_output_shape;
  }
  for (at::Tag tag : op.getTags()) {
    info.elementwise |= tag == at::Tag::pointwise;
    info.has_out |= tag == at::Tag::out;
  }
  info.promotes_dtypes = info.mixes_devices || info.elementwise;
  // A copy of memory onto itself, or a new geometry for it.
  info.elementwise |= info.mixes_devices || info.facts->changes_metadata;
  info.ends_constant = is_op(op, "aten::lift_fresh") || is_op(op, "aten::detach_");
  info.gives_raw_memory = op == named_ops().empty;
  info.autocast_kernel = op.hasKernelForAnyDispatchKey(c10::autocast_dispatch_keyset);
  info.returns_tensor =
      info.returns > 0 && schema.returns()[0].type()->kind() == c10::TypeKind::TensorType;
  info.composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  info.decomposes = info.composite && !op.hasKernelForDispatchKey(c10::DispatchKey::CPU) &&
                    !op.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
  if (is_op(op, "aten::_efficientzerotensor")) info.recorded_as = find_op("aten::zeros");
  return info;
}

}  // namespace

const OpInfo& op_info(const c10::OperatorHandle& op) { return per_operator<&make_op_info>(op); }

}  // namespace fulgurite
