import torch

@torch.enable_grad()
def computation(x):
  # x: "cpu f32[2] grad"
  t1 = torch.ops.aten.sin.default(x)  # t1: "cpu f32[2] grad"
  with torch.no_grad():
    t2 = torch.ops.aten.cos.default(t1)  # t2: "cpu f32[2]"
    t3 = torch.ops.aten.exp.default(t2)  # t3: "cpu f32[2]"
  with torch.inference_mode():
    t4 = torch.ops.aten.abs.default(t3)  # t4: "cpu f32[2]"
  t5 = torch.ops.aten.neg.default(t4)  # t5: "cpu f32[2]"
  return t5
