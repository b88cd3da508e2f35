"""Linear layers whose weights are bytes."""

import torch

from fulgurite.transforms._linears import with_linears

_LARGEST = 127


class Int8Linear(torch.nn.Module):
    """A linear layer whose weight is int8 with one scale for each row (output channel): row i is
    `weight_int8[i] * scale[i]`, rounded to nearest, the largest element of a row being 127.
    Products are computed in the dtype of the argument; weights have no gradient."""

    def __init__(self, layer):
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        weight = layer.weight.detach()
        exact = weight.float()
        largest = exact.abs().amax(1)
        scale = torch.where(largest > 0, largest / _LARGEST, 1).to(weight.dtype)
        rounded = (exact / scale.float()[:, None]).round().clamp_(-_LARGEST, _LARGEST)
        self.register_buffer("weight_int8", rounded.to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = layer.bias

    def forward(self, x):
        product = torch.nn.functional.linear(x, self.weight_int8.to(x.dtype)) * self.scale.to(
            x.dtype
        )
        return product if self.bias is None else product + self.bias

    def dequantised(self):
        """The weight that it stands for."""
        return self.weight_int8.to(self.scale.dtype) * self.scale[:, None]

    def extra_repr(self):
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


def int8_linear(module, targets=None):
    """A module like `module` whose nn.Linear layers are `Int8Linear`; the rest is shared.

    targets: ends of names of layers, or a function of name and layer; None: all. A quarter of the
    memory of float32 weights; each element of a weight is off by at most half a scale.
    """
    return with_linears(module, targets, Int8Linear, "int8_linear")
