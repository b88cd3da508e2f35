# Constructed by Delete Last Used
import torch

def fusion0(a, b):  # executor: fused_cpu
  t2 = torch.ops.aten.add.Tensor(a, b, alpha=1)  # t2: "cpu f32[2, 2]"
  t3 = torch.ops.aten.mul.Tensor(t2, b)  # t3: "cpu f32[2, 2]"
  return t2, t3

@torch.no_grad()
@torch.autocast("cpu", enabled=False)
def computation(a, b):
  # a: "cpu f32[2, 2]"
  # b: "cpu f32[2, 2]"
  t2, t3 = fusion0(a, b)
  del a, b
  t4 = torch.ops.aten.mm.default(t2, t3)  # t4: "cpu f32[2, 2]"  # executor: aten
  del t2
  return t3, t4
