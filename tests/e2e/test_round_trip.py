"""Parsing is running: a printed program, captured again, is the same program.

What is printed is each trace of a compilation: as captured, and after every pass.
"""

import math

import pytest
import torch
from torch import nn

from tests.e2e.round_trip import MODES, capture, check, program, round_trip

F = torch.nn.functional
CONSTANTS = {
    "specials": lambda x: (
        x * float("inf"),
        x + float("nan"),
        x.clamp(-float("inf"), 1e-45),
        x.masked_fill(x > 0, -float("inf")),
        x * -0.0,
        x.nan_to_num(nan=math.nan, posinf=math.inf),
    ),
    "wrapped numbers": lambda x: (
        x + True,
        x.int() + 2,
        x.int() * 2.5,
        3 - x,
        2**x,
        x // 2,
        x % 3,
        True & (x > 0),
        x.half() * 3,
        torch.where(x > 0, 1, 2.0),
        torch.where(x > 0, x, 0),
    ),
    "complex": lambda x: (
        x * 2j,
        x + complex(1, math.inf),
        torch.full((2,), 1 + 2j),
        (x * 1j).imag,
        torch.polar(x, x),
    ),
    "extremes": lambda x: (
        x.long() + 2**62,
        torch.full((2,), -(2**63)),
        x[: 2**40],
        x * 1e308,
        x * 1e-320,
        x * 0.1,
        x * (1 / 3),
    ),
    "formats": lambda x: (
        x[None, None].contiguous(memory_format=torch.channels_last),
        x.t().contiguous(),
        x[None, None].to(torch.float64, memory_format=torch.channels_last),
        torch.empty_like(x, memory_format=torch.contiguous_format),
        x.clone(memory_format=torch.preserve_format),
    ),
    "strings": lambda x: (
        torch.div(x, 2, rounding_mode="floor"),
        F.gelu(x, approximate="tanh"),
        torch.searchsorted(x[0].contiguous(), x, side="right"),
        torch.einsum("ij,ij->i", x, x),
        F.pad(x[None], (1, 1), mode="circular"),
        torch.linalg.norm(x, "fro"),
    ),
    "optional lists": lambda x: (
        x[:, torch.tensor([0, 1])],
        x[None, :, torch.tensor([1])],
        F.interpolate(x[None, None], scale_factor=2, mode="bilinear"),
        x.sum((0, 1)),
        x.var(correction=0),
        x.std(dim=1, unbiased=False),
        F.avg_pool2d(x[None], 2),
    ),
    "random": lambda x: (
        x.clone().uniform_(0, 1),
        x.clone().random_(1, 5),
        x.clone().exponential_(lambd=2),
        torch.normal(x, 0.1),
        torch.rand(3),
        torch.randperm(4, generator=torch.default_generator),
        F.dropout(x, 0.5),
    ),
    "overloads": lambda x: (
        torch.arange(3),
        x.any(),
        x.max(),
        x.min(1),
        torch.aminmax(x),
        x.round(decimals=1),
        torch.pow(x, 2),
        x.clamp(max=1),
        x.int() & x.int(),
        x.int() ^ 1,
        torch.full_like(x, 2),
        torch.zeros(2, dtype=torch.uint16),
        x.new_ones(2),
    ),
    "dtypes": lambda x: (
        x.bfloat16(),
        x.to(torch.float8_e4m3fn),
        x.to(torch.complex64),
        x.sum(dtype=torch.float64),
        torch.softmax(x, 0, torch.float64),
    ),
    "lists": lambda x: (
        *torch._foreach_mul([x, x], [1.0, 2.0]),
        torch.cat([x]),
        torch.stack((x, x)),
        *torch.tensor_split(x, [1]),
        *x.split(1),
        *x.unbind(),
        *torch.broadcast_tensors(x, x[0]),
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name, dtype):
    torch.manual_seed(0)
    x = torch.randn(4, 3)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        check(CONSTANTS[name], x)
    finally:
        torch.set_default_dtype(before)


def no_grad_inside(x, w):
    y = x @ w
    with torch.no_grad():
        scale = y.abs().max()
        y2 = y * scale
    with torch.inference_mode():
        z = y2 + 1
    return y / scale, z


def writes(x, w):
    y = x + 1
    y[0] = 2.0
    y.t()[1:].mul_(3)
    x.add_(y)
    return x, y.t(), y[0]


def geometry(x, w):
    y = x.clone()
    y.t_()
    y.squeeze_()
    return y, y.contiguous()


def structures(x, w):
    y = x * 2
    return {"a": y, 3: [x, None, (y,)], "c": "text", "d": torch.float16}, 1.5


def constants(x, w):
    numbers = [math.inf, -math.inf, math.nan, -0.0, 1e-5, 2**80, True, None, ...]
    complexes = (complex(0, math.inf), complex(math.nan, -0.0), 1j)
    of_torch = (torch.device("cpu"), torch.float16, torch.strided, torch.channels_last, x.shape)
    keys = {math.inf: x, (1, math.nan): 1, torch.device("cpu", 0): 2, torch.int8: b"\0", "k\n": "'"}
    return numbers, complexes, of_torch, keys, slice(None, math.inf), torch.default_generator


def objects(x, w):
    return torch.Generator(), {Block: x}, [Block]


def nothing(x, w):
    return None


@pytest.mark.parametrize(
    "function", [no_grad_inside, writes, geometry, structures, constants, objects, nothing]
)
def test_programs(function):
    torch.manual_seed(0)
    check(function, torch.randn(3, 3), torch.randn(3, 3))


def test_inputs_that_share_memory():
    base = torch.randn(4, 4)
    check(lambda a, b: (a.add_(b) * 2, b), base[:2], base[2:])
    check(lambda a, b: (a[1:] * b, a.sum()), base, base[1:])


def test_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        captured = capture(lambda x: F.linear(x, x), (torch.randn(2, 2),))
    assert round_trip(captured.trace, (torch.randn(2, 2),)) == ""


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))
        self.convolution = nn.Sequential(nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4), nn.SiLU())

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return self.convolution(x + self.mlp(x))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_module(mode, training):
    torch.manual_seed(0)
    module = Block().train(training)
    with MODES[mode]():
        check(module, torch.randn(2, 4, 8))


def test_gradients():
    torch.manual_seed(0)
    module = Block().eval()
    x = torch.randn(2, 4, 8)

    def step(x):
        loss = module(x).square().mean()
        return loss, torch.autograd.grad(loss, list(module.parameters()))

    check(step, x)


def test_a_changed_text_is_another_program():
    x = torch.randn(2, 3)
    trace = capture(lambda x: torch.softmax(x * 2.5, 1).sum(0), (x,)).trace
    text = trace.text()
    changes = [("2.5", "2.25"), ("2.5", "2"), ("softmax", "log_softmax"), (", [0]", ", [1]")]
    for old, new in changes:
        assert old in text
        again = capture(program(text.replace(old, new), trace.name), (x,)).trace
        assert trace.difference(again) != "", (old, new)
