// The operators that passes add calls of, looked up once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace fulgurite {

struct NamedOps {
  // Views.
  c10::OperatorHandle alias, as_strided, conj, expand, neg_view, permute, select, slice, unsqueeze,
      view, view_dtype;
  // A copy of a tensor with a view of it replaced.
  c10::OperatorHandle as_strided_scatter, select_scatter, slice_scatter;
  // Fresh memory.
  c10::OperatorHandle cat, clone, empty, to_copy;
  // Writes, and changes of geometry.
  c10::OperatorHandle as_strided_, copy_, resize_, set_;
};

const NamedOps& named_ops();

}  // namespace fulgurite
