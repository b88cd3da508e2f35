#include "ops/named_ops.h"

#include "ops/facts.h"

namespace fulgurite {

const NamedOps& named_ops() {
  static const NamedOps ops{
      .alias = find_op("aten::alias"),
      .as_strided = find_op("aten::as_strided"),
      .conj = find_op("aten::_conj"),
      .expand = find_op("aten::expand"),
      .neg_view = find_op("aten::_neg_view"),
      .permute = find_op("aten::permute"),
      .select = find_op("aten::select", "int"),
      .slice = find_op("aten::slice", "Tensor"),
      .unsqueeze = find_op("aten::unsqueeze"),
      .view = find_op("aten::view"),
      .view_dtype = find_op("aten::view", "dtype"),
      .as_strided_scatter = find_op("aten::as_strided_scatter"),
      .select_scatter = find_op("aten::select_scatter"),
      .slice_scatter = find_op("aten::slice_scatter"),
      .cat = find_op("aten::cat"),
      .clone = find_op("aten::clone"),
      .empty = find_op("aten::empty", "memory_format"),
      .to_copy = find_op("aten::_to_copy"),
      .as_strided_ = find_op("aten::as_strided_"),
      .copy_ = find_op("aten::copy_"),
      .resize_ = find_op("aten::resize_"),
      .set_ = find_op("aten::set_", "source_Tensor"),
  };
  return ops;
}

}  // namespace fulgurite
