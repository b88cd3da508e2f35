#include "passes/functionalise/views.h"

#include "base/error.h"
#include "ops/named_ops.h"

namespace fulgurite {
namespace {

using Kind = ViewStep::Kind;

const TensorType& type(const Builder& builder, ValueId id) { return type_of(builder.trace, id); }

ValueId apply(Builder& builder, ValueId base, const ViewStep& step) {
  const NamedOps& ops = named_ops();
  auto result = after(type(builder, base), step);
  require(result.has_value(), "value {} has no such view", base);
  const Arg self = Arg::of(base);
  switch (step.kind) {
    case Kind::View:
      return add_call(builder, ops.view, {self, int_list(step.dims)}, *result);
    case Kind::Permute:
      return add_call(builder, ops.permute, {self, int_list(step.dims)}, *result);
    case Kind::Select:
      return add_call(builder, ops.select, {self, number(step.dim), number(step.start)}, *result);
    case Kind::Slice:
      return add_call(
          builder, ops.slice,
          {self, number(step.dim), number(step.start), number(step.stop), number(step.step)},
          *result);
    case Kind::Unsqueeze:
      return add_call(builder, ops.unsqueeze, {self, number(step.dim)}, *result);
    case Kind::Expand:
      return add_call(builder, ops.expand, {self, int_list(step.dims), Arg::literal(false)},
                      *result);
    case Kind::Restride:
      return view_by_strides(builder, base, *result, result->offset);
  }
  return base;
}

bool selects(const ViewStep& step) { return step.kind == Kind::Select || step.kind == Kind::Slice; }

Dims inverse_of(const Dims& order) {
  Dims inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  return inverse;
}

// `base` with what `step` selects replaced.
ValueId scatter(Builder& builder, ValueId base, const ViewStep& step, ValueId value) {
  const NamedOps& ops = named_ops();
  TensorType result = type(builder, base);
  result.storage = kNoStorage;
  std::vector<Arg> args{Arg::of(base), Arg::of(value), number(step.dim), number(step.start)};
  if (step.kind == Kind::Select) return add_call(builder, ops.select_scatter, args, result);
  args.push_back(number(step.stop));
  args.push_back(number(step.step));
  return add_call(builder, ops.slice_scatter, args, result);
}

// A value with the sizes that `step` started from, of which `value` has all elements.
ValueId undo(Builder& builder, const Dims& sizes, const ViewStep& step, ValueId value) {
  ViewStep back = step;
  switch (step.kind) {
    case Kind::View:
      back.dims = sizes;
      if (!after(type(builder, value), back)) value = contiguous_copy(builder, value);
      return apply(builder, value, back);
    case Kind::Permute:
      back.dims = inverse_of(step.dims);
      return apply(builder, value, back);
    case Kind::Unsqueeze:
      back.kind = Kind::Select;
      return apply(builder, value, back);
    case Kind::Restride:
      return value;
    default:
      internal_error("a write through a view whose elements share memory");
  }
}

}  // namespace

ValueId view(Builder& builder, ValueId base, const ViewSteps& steps) {
  for (const ViewStep& step : steps) base = apply(builder, base, step);
  return base;
}

ValueId view_by_strides(Builder& builder, ValueId base, const TensorType& like, int64_t offset) {
  TensorType result = type(builder, base);
  // Without an offset the program does not depend on where in its storage an input lies.
  const Arg at = offset == result.offset ? Arg() : number(offset);
  result.sizes = like.sizes;
  result.strides = like.strides;
  result.offset = offset;
  return add_call(builder, named_ops().as_strided,
                  {Arg::of(base), int_list(like.sizes), int_list(like.strides), at}, result);
}

bool can_put(const ViewSteps& steps) {
  for (const ViewStep& step : steps)
    if (step.kind == Kind::Expand) return false;
  return true;
}

ValueId put(Builder& builder, ValueId base, const ViewSteps& steps, ValueId value) {
  size_t last = 0;  // one past the last step that selects: until there the bases are needed
  for (size_t i = 0; i < steps.size(); ++i)
    if (selects(steps[i])) last = i + 1;
  c10::SmallVector<ValueId, 4> bases{base};
  c10::SmallVector<Dims, 4> sizes;
  TensorType shape = type(builder, base);
  for (size_t i = 0; i < steps.size(); ++i) {
    sizes.push_back(shape.sizes);
    shape = *after(shape, steps[i]);
    if (i + 1 < last) bases.push_back(apply(builder, bases[i], steps[i]));
  }
  for (size_t i = steps.size(); i-- > 0;)
    value = selects(steps[i]) ? scatter(builder, bases[i], steps[i], value)
                              : undo(builder, sizes[i], steps[i], value);
  return value;
}

ValueId put_by_strides(Builder& builder, ValueId base, const TensorType& like, int64_t offset,
                       ValueId value) {
  TensorType result = type(builder, base);
  result.storage = kNoStorage;
  return add_call(
      builder, named_ops().as_strided_scatter,
      {Arg::of(base), Arg::of(value), int_list(like.sizes), int_list(like.strides), number(offset)},
      result);
}

std::optional<TensorType> type_as(const TensorType& type, c10::ScalarType dtype) {
  TensorType result = type;
  result.dtype = dtype;
  const auto from = static_cast<int64_t>(c10::elementSize(type.dtype));
  const auto to = static_cast<int64_t>(c10::elementSize(dtype));
  if (from == to) return result;
  if (type.sizes.size() != 1 || type.strides[0] != 1) return {};
  if (type.offset * from % to != 0 || type.sizes[0] * from % to != 0) return {};
  result.offset = type.offset * from / to;
  result.sizes[0] = type.sizes[0] * from / to;
  return result;
}

ValueId view_as(Builder& builder, ValueId base, c10::ScalarType dtype) {
  const TensorType& from = type(builder, base);
  if (from.dtype == dtype) return base;
  auto result = type_as(from, dtype);
  if (!result)
    throw Unsupported(
        "a tensor is seen with elements of two sizes that do not line up; clone it "
        "before it is changed in place");
  return add_call(builder, named_ops().view_dtype,
                  {Arg::of(base), number(static_cast<int64_t>(dtype))}, *result);
}

ValueId view_conj(Builder& builder, ValueId base) {
  TensorType result = type(builder, base);
  result.conj = !result.conj;
  return add_call(builder, named_ops().conj, {Arg::of(base)}, result);
}

ValueId view_neg(Builder& builder, ValueId base) {
  TensorType result = type(builder, base);
  result.neg = !result.neg;
  return add_call(builder, named_ops().neg_view, {Arg::of(base)}, result);
}

namespace {

ValueId clone(Builder& builder, ValueId value, c10::MemoryFormat format, TensorType result) {
  return add_call(builder, named_ops().clone,
                  {Arg::of(value), number(static_cast<int64_t>(format))}, std::move(result));
}

}  // namespace

ValueId contiguous_copy(Builder& builder, ValueId value) {
  return clone(builder, value, c10::MemoryFormat::Contiguous,
               contiguous_like(type(builder, value)));
}

ValueId dense_copy(Builder& builder, ValueId value) {
  return clone(builder, value, c10::MemoryFormat::Preserve, dense_like(type(builder, value)));
}

}  // namespace fulgurite
