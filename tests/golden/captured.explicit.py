import torch

@torch.no_grad()
@torch.autocast("cpu", enabled=False)
def computation(a, b, p_fc_weight):
  # a: "cpu f32[2, 2]"
  # b: "cpu f32[2, 2]"
  # p_fc_weight: "cpu f32[2, 2]"  model.fc.weight

  # model.py:12:  c = a + b
  t3 = torch.ops.aten.add.Tensor(a, b, alpha=1)  # t3: "cpu f32[2, 2]"
  # model.py:13:  d = self.fc(c)
  t4 = torch.ops.aten.linear.default(t3, p_fc_weight, None)  # t4: "cpu f32[2, 2]"
  return t4
