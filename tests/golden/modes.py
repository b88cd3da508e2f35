import torch

@torch.enable_grad()
def computation(x):
  # x: "cpu f32[2] grad"
  t1 = torch.sin(x)  # t1: "cpu f32[2] grad"
  with torch.no_grad():
    t2 = torch.cos(t1)  # t2: "cpu f32[2]"
    t3 = torch.exp(t2)  # t3: "cpu f32[2]"
  with torch.inference_mode():
    t4 = torch.abs(t3)  # t4: "cpu f32[2]"
  t5 = torch.neg(t4)  # t5: "cpu f32[2]"
  return t5
