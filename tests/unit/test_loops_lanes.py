"""Lanes that are split, guards asked once a vector, kept rows: against eager, the same bits but for
the last test."""

import pytest
import torch
import torch.nn.functional as F
from loop_harness import COMPILER, WIDEST, Kernels, lower
from test_loops_elements import eager, make, same_bits

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs clang++-19")
KERNELS = {64: Kernels(WIDEST), 32: Kernels(32)}
WIDTHS = (1, 31, 32, 33, 64, 127, 300)
LARGEST = (1 << 63) - 1


def check(function, *inputs):
    inputs = list(inputs)
    program = lower(function, inputs)
    for kernels in KERNELS.values():
        for got, expected in zip(
            kernels.run(program, inputs), eager(function, inputs), strict=True
        ):
            same_bits(got, expected)


MIXED = {
    "three": lambda x, y, f, m: (x + y) * x - y,
    "to_f32": lambda x, y, f, m: (x + y).float(),
    "with_f32": lambda x, y, f, m: x * y + (x - y) + f,
    "where": lambda x, y, f, m: torch.where(m, x + y, x * y),
    "compared": lambda x, y, f, m: (x + y, x < y),
    "cat": lambda x, y, f, m: torch.cat((x + y, -x, y), -1) * 2,
    "pad": lambda x, y, f, m: F.pad(x + y, (3, 40)) + 1,
    "column": lambda x, y, f, m: x * y[:, :1] + x,
    "turned": lambda x, y, f, m: (x.t() + y.t()) * 2,
    "flip": lambda x, y, f, m: x.flip(-1) + y,
    "index": lambda x, y, f, m: x + y + torch.arange(x.shape[-1]).to(torch.bfloat16),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("function", MIXED.values(), ids=MIXED)
def test_bfloat16_beside_other_types(function, width):
    shape = (5, width)
    x, y = make(torch.bfloat16, shape), make(torch.bfloat16, shape, seed=1)
    check(function, x, y, make(torch.float32, shape, seed=2), make(torch.bool, shape, seed=3))


def test_every_nan_stays_nan():
    bits = torch.tensor([-1, 0x7FFFFFFF, 0x7FFF8000, 0x7F800001, -0x7FFFFF], dtype=torch.int32)
    wide = bits.repeat(20).view(torch.float32)
    narrow = (bits.repeat(20) >> 16).to(torch.int16).view(torch.bfloat16)
    check(lambda f, x: (f.bfloat16() * 2 + 1, (x * x + x) * 2), wide, narrow)


BOUNDS = (-LARGEST - 1, -1, 0, 1, 17, 63, 64, 65, 1000, LARGEST)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float64, torch.int8))
def test_numbers_of_lanes_compared(dtype, bound):
    def compared(x, c):
        i = torch.arange(x.shape[-1])
        masks = i < c, i <= c, i > c, i >= c, i == c, i != c, c <= i
        return [torch.where(m, x, x + x) for m in masks]

    check(compared, make(dtype, (3, 97)), torch.tensor([[bound]]))


@pytest.mark.parametrize("width", WIDTHS)
def test_zeros_keep_their_signs(width):
    x = torch.zeros(width)
    x[::2] = -0.0
    for function in (torch.tanh, torch.erf):
        check(function, x)


@pytest.mark.parametrize("shape", ((2, 48, 80), (1, 16, 16), (3, 33, 70), (700, 600)), ids=str)
def test_turned_squares(shape):
    x, y = torch.randn(shape), torch.randn(shape).mT.contiguous()
    check(lambda x, y: x.mT * 2 + y, x, y)
    check(lambda x, y: (x.mT + y, x.mT - y), x, y)
    check(lambda x, y: torch.relu(x.mT) + x.mT, x, y)
    check(lambda x, y: x.mT * y[..., :1] + 2, x, y)


KEPT = {
    "softmax": lambda x, y: x.softmax(-1),
    "times": lambda x, y: x.softmax(-1) * y,
    "gelu_norm": lambda x, y: F.layer_norm(F.gelu(x) + y, x.shape[-1:]),
    "scaled": lambda x, y: (x * 0.125).masked_fill(y > 1, -torch.inf).softmax(-1),
}


@pytest.mark.parametrize("width", (*WIDTHS, 5000))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("function", KEPT.values(), ids=KEPT)
def test_kept_rows(function, dtype, width):
    x, y = (torch.randn(6, width, generator=torch.manual_seed(s)).to(dtype) for s in (0, 1))
    program = lower(function, [x, y])
    expected, exact = function(x, y), function(x.double(), y.double())
    least = 2 * (expected - exact).abs().nan_to_num().max() + torch.finfo(dtype).eps / 4
    for kernels in KERNELS.values():
        for chunk in (0, 1):
            got = kernels.run(program, [x, y], chunk)[0]
            assert torch.equal(got.isnan(), expected.isnan())
            assert (got - exact).abs().nan_to_num().max() <= least
