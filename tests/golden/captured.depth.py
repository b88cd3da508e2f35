import torch

@torch.no_grad()
@torch.autocast("cpu", enabled=False)
def computation(a, b, p_fc_weight):
  # a: "cpu f32[2, 2]"
  # b: "cpu f32[2, 2]"
  # p_fc_weight: "cpu f32[2, 2]"  model.fc.weight

  # model.py:12:  c = a + b
  t3 = torch.add(a, b)  # t3: "cpu f32[2, 2]"
  # model.py:13:  d = self.fc(c)
  t4 = torch.nn.functional.linear(t3, p_fc_weight)  # t4: "cpu f32[2, 2]"
    # t5 = torch.t(p_fc_weight)  # t5: "cpu f32[2, 2] strides (1, 2)"
    # t4 = torch.mm(t3, t5)  # t4: "cpu f32[2, 2]"
  return t4
