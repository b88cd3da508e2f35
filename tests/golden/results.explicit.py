import torch

@torch.no_grad()
def computation(x):
  # x: "cpu f32[2, 2]"
  [t1, t2] = torch.ops.aten.unbind.int(x, 0)  # t1: "cpu f32[2]", t2: "cpu f32[2]"
  [t3] = torch.ops.aten.split.Tensor(x, 5, 0)  # t3: "cpu f32[1, 2, 2]"
  torch.ops.aten.add_.Tensor(t1, 2.5, alpha=1)  # t1: "cpu f32[2]"
  t4, t5 = torch.ops.aten.max.dim(x, 1, False)  # t4: "cpu f32[2]", t5: "cpu i64[2]"
  [t6, t7, t8, t9] = torch.ops.aten._foreach_mul.Scalar([t1, t2, t4, t4], 2)
  # t6: "cpu f32[2]"
  # t7: "cpu f32[2]"
  # t8: "cpu f32[2]"
  # t9: "cpu f32[2]"
  torch.ops.aten._foreach_neg_.default([t6, t7])
  torch.ops.aten.t_.default(x)  # x: "cpu f32[2, 2] strides (1, 2)"
  return t1, t5, t9, x
