"""Low-rank adapters (Hu et al., 2021: W + alpha / r * B A)."""

import math

import torch

from fulgurite._C import UserError
from fulgurite.transforms._linears import with_linears


class LoraLinear(torch.nn.Module):
    """A frozen linear layer, and `scaling * b @ a` beside it, which is trained. It begins as the
    layer itself: b is zeros, a as nn.Linear initialises weights."""

    def __init__(self, layer, r, alpha, dropout):
        super().__init__()
        self.base, self.scaling = layer, alpha / r
        options = {"dtype": layer.weight.dtype, "device": layer.weight.device}
        self.a = torch.nn.Parameter(torch.empty(r, layer.in_features, **options))
        self.b = torch.nn.Parameter(torch.zeros(layer.out_features, r, **options))
        self.dropout = torch.nn.Dropout(dropout) if dropout else torch.nn.Identity()
        torch.nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, x):
        low = torch.nn.functional.linear(self.dropout(x), self.a)
        return self.base(x) + torch.nn.functional.linear(low, self.b) * self.scaling

    def merged(self):
        """One nn.Linear that computes the same, but for dropout."""
        base = self.base
        layer = torch.nn.Linear(base.in_features, base.out_features, device="meta")
        weight = base.weight.detach() + self.scaling * self.b.detach() @ self.a.detach()
        layer.weight = torch.nn.Parameter(weight)
        layer.bias = base.bias
        return layer

    def extra_repr(self):
        return f"r={self.a.shape[0]}, scaling={self.scaling}"


def lora(module, r=8, alpha=16, dropout=0.0, targets=None):
    """A module like `module` with a `LoraLinear` in the place of each nn.Linear (or of `targets`:
    ends of names, or a function of name and layer). All else is frozen, and shares its memory with
    `module`, which stays as it is."""
    if not isinstance(r, int) or isinstance(r, bool) or r < 1:
        raise UserError(f"r of lora is a positive int, got {r!r}")
    if not 0 <= dropout < 1:
        raise UserError(f"dropout of lora is a probability below 1, got {dropout!r}")
    frozen = {}
    if isinstance(module, torch.nn.Module):
        for p in module.parameters():
            frozen[id(p)] = torch.nn.Parameter(p.detach(), requires_grad=False)
    return with_linears(
        module, targets, lambda layer: LoraLinear(layer, r, alpha, dropout), "lora", frozen
    )


def merge_lora(module):
    """Puts an nn.Linear in the place of each `LoraLinear`, in place; returns the module."""
    if isinstance(module, LoraLinear):
        return module.merged()
    for parent in list(module.modules()):
        for name, child in parent._modules.items():
            if isinstance(child, LoraLinear):
                parent._modules[name] = child.merged()
    return module
