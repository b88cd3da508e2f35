"""bfloat16 and float16 within fusions: each call's result is rounded, as it is in memory."""

import pytest
import torch
import torch.nn.functional as F

import fulgurite
from fulgurite import examine

NARROW = [torch.bfloat16, torch.float16]


def equal_in_two_ways(a, b, c):
    return (a * b + a) == (c + a)


def compared(a, b, c):
    return (a * b + a).abs() > (c + b).neg(), torch.maximum(a * b, c - a) <= c * 3


def integers(a, b, c):
    return (a * a).sum(dtype=torch.int64), (a * b).to(torch.int32), (a * b).floor() // 1


def wide_results(a, b, c):
    return (a * b).float() + (a - c).double(), (a * b).float().sum(-1), (a + b) * c.double()


def chain(a, b, c):
    return (a + b) * b + a * a, (a / 3 - b) * 0.3 + c, torch.addcmul(a + b, b * c, c, value=0.7)


def chosen(a, b, c):
    x = torch.where(a * b > c, a * b, a + c)
    return x.relu() * 3 - x, x.clamp(-1, 0.3) * c, (x.view(-1)[1:] * 3).flip(0) + 1


def bits_of_one_call(a, b, c):
    return (
        (a * b).sqrt(),
        (a * b) - a,
        (a.sign() * b) * c,
        a.neg() * b - b.abs(),
        (a * b)[:, :1] * c,
    )


PROGRAMS = [equal_in_two_ways, compared, integers, wide_results, chain, chosen, bits_of_one_call]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("program", PROGRAMS)
def test_bits_are_those_of_eager(program, dtype):
    torch.manual_seed(0)
    a, b = torch.randn(40, 50).to(dtype) * 10, torch.randn(40, 50).to(dtype)
    a[0, :5] = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 6e-5])
    c = a * b
    compiled = fulgurite.jit(program)
    with torch.no_grad():
        expected, results = program(a, b, c), compiled(a, b, c)
    assert examine.get_fusions(fulgurite.last_traces(compiled)[-1])
    expected = expected if isinstance(expected, tuple) else (expected,)
    results = results if isinstance(results, tuple) else (results,)
    for result, wanted in zip(results, expected, strict=True):
        tolerance = 1e-6 if wanted.dtype == torch.float32 else 0  # sums, in another order
        torch.testing.assert_close(result, wanted, rtol=tolerance, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", NARROW)
def test_denormal_numbers_are_rounded_too(dtype):
    tiny = torch.finfo(dtype).tiny
    a = torch.arange(-64, 64).to(torch.float64).mul(tiny / 37).to(dtype)
    program = lambda a: ((a * 0.7) * 3 == a, (a * 0.7).float())
    for result, wanted in zip(fulgurite.jit(program)(a), program(a), strict=True):
        assert torch.equal(result, wanted)


@pytest.mark.parametrize("dtype", NARROW)
def test_what_is_one_call_is_rounded_once(dtype):
    """A kernel of ATen's computes in float32 and rounds its result."""
    torch.manual_seed(0)
    a, b = torch.randn(64, 100).to(dtype), torch.randn(64, 100).to(dtype)

    def program(a, b):
        return F.gelu(a + b), (a * b).softmax(-1), F.layer_norm(a - b, (100,)), F.silu(a) * b

    unit = torch.finfo(dtype).eps
    for result, wanted in zip(fulgurite.jit(program)(a, b), program(a, b), strict=True):
        torch.testing.assert_close(result, wanted, rtol=2 * unit, atol=unit / 8)
        assert (result != wanted).float().mean() < 0.05


def test_values_that_are_narrow_already_are_not_rounded_again():
    def program(a, b):
        return ((a.relu().neg() + b.flip(0)) == a.floor()).float()

    compiled = fulgurite.jit(program)
    compiled(torch.ones(64, 64).bfloat16(), torch.ones(64, 64).bfloat16())
    (fusion,) = examine.get_fusions(fulgurite.last_traces(compiled)[-1])
    text = fusion[1].last_used.last_cpu_code()
    assert text.count("= bf16_round_of_narrow(") == 1
    assert text.count("= bf16_round(") == 0
