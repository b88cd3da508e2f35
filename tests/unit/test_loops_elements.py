"""Operators that make, join or find elements against eager: the same bits."""

import element_samples
import pytest
import torch
import torch.nn.functional as F
from loop_harness import COMPILER, WIDEST, Kernels, lower

from fulgurite import _C

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs clang++-19")
KERNELS = {64: Kernels(WIDEST), 32: Kernels(32)}
DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
SHAPE = (4, 6, 8)


def make(dtype, shape=SHAPE, seed=0):
    """Small numbers, with NaN, infinities and zeros of both signs."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-20, 20, shape, generator=generator).double()
    if dtype == torch.bool:
        return x > 0
    if dtype.is_floating_point:
        x = x / 4
        special = torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf")]).double()
        x.view(-1)[: 5 * (x.numel() > 5)] = special[: 5 * (x.numel() > 5)]
        return x.flip(-1).to(dtype)
    return x.abs().to(dtype) if dtype == torch.uint8 else x.to(dtype)


def eager(function, inputs):
    results = function(*inputs)
    return [results] if isinstance(results, torch.Tensor) else list(results)


def same_bits(got, expected):
    assert got.dtype == expected.dtype and got.shape == expected.shape
    assert got.stride() == expected.stride()
    if got.dtype.is_floating_point:
        nan = got.isnan()
        assert torch.equal(nan, expected.isnan())
        got, expected = got.masked_fill(nan, 0), expected.masked_fill(nan, 0)
        got, expected = (t.view(BITS[t.itemsize]) for t in (got, expected))
    assert torch.equal(got, expected)


def parameters(function):
    return function.__code__.co_argcount


def inputs_of(function, dtype, layout=lambda x: x):
    return [layout(make(dtype, seed=seed)) for seed in range(parameters(function))]


def sampled(samples):
    for name, functions in samples.items():
        for i, function in enumerate(functions):
            yield pytest.param(function, id=f"{name}-{i}")


LAYOUTS = {
    "plain": lambda x: x,
    "permuted": lambda x: x.permute(2, 0, 1).contiguous().permute(1, 2, 0),
    "strided": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "expanded": lambda x: x[:1].expand(SHAPE),
}


def check_all(cases, chunk=0):
    """(function, inputs) on both widths of vectors; the texts are compiled together."""
    cases = [(f, x, lower(f, x), eager(f, x)) for f, x in cases]
    for kernels in KERNELS.values():
        if any(kernels.add(program) in kernels.pending for _, _, program, _ in cases):
            kernels.compile()
        for _, inputs, program, expected in cases:
            for g, e in zip(kernels.run(program, list(inputs), chunk), expected, strict=True):
                same_bits(g, e)


def possible(function, dtype, layout):
    inputs = inputs_of(function, dtype, layout)
    try:
        function(*inputs)
    except (RuntimeError, NotImplementedError):
        return False
    return True


@pytest.mark.parametrize(
    "function",
    [
        *sampled(element_samples.MADE),
        *sampled(element_samples.JOINED),
        *sampled(element_samples.MOVED),
    ],
)
def test_every_dtype_and_layout(function):
    cases = [
        (function, inputs_of(function, dtype, layout))
        for dtype, layout in [
            *((dtype, LAYOUTS["plain"]) for dtype in DTYPES),
            *((torch.float32, layout) for layout in LAYOUTS.values()),
        ]
        if possible(function, dtype, layout)
    ]
    assert cases
    check_all(cases)
    check_all(cases[-1:], chunk=64)


def found():
    for name, samples in element_samples.FOUND.items():
        for i, (function, inputs) in enumerate(samples):
            yield pytest.param(function, inputs, id=f"{name}-{i}")


@pytest.mark.parametrize("function, inputs", list(found()))
def test_found_by_index(function, inputs):
    check_all([(function, inputs(make(dtype))) for dtype in DTYPES])


def out_of_bounds(index, size):
    for wrong in (size, -size - 1):
        yield index.flatten().index_fill(0, torch.tensor([index.numel() - 1]), wrong).view_as(index)


@pytest.mark.parametrize("function, inputs", list(found()))
def test_out_of_bounds_fails(function, inputs):
    table, *indices = inputs(make(torch.float32))
    program = lower(function, [table, *indices])
    for wrong in out_of_bounds(indices[-1], 1000):
        for kernels in KERNELS.values():
            assert kernels.fails(program, [table, *indices[:-1], wrong])


@pytest.mark.parametrize("wraps", (False, True))
def test_negative_indices(wraps):
    function = (lambda t, i: t[i]) if wraps else (lambda t, i: t.index_select(0, i))
    table, index = make(torch.float32), torch.tensor([1, -1])
    program = lower(function, [table, index])
    assert KERNELS[64].fails(program, [table, index]) != wraps


DIVISIONS = (
    lambda x, y: x // y,
    lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    lambda x, y: x % y,
    lambda x, y: torch.fmod(x, y),
)


@pytest.mark.parametrize("dtype", (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
def test_integers_divided_by_tensors(dtype):
    x = torch.arange(-60, 61).to(dtype)
    y = torch.tensor([1, 2, 3, 7, 100] + ([] if dtype == torch.uint8 else [-1, -2, -5, -100]))
    x, y = x[:, None].expand(121, len(y)), y.to(dtype)
    check_all([(f, [x, y]) for f in DIVISIONS])
    zero = y.clone()
    zero[-1] = 0
    for f in DIVISIONS:
        assert KERNELS[64].fails(lower(f, [x, y]), [x, zero])
    with pytest.raises(_C.Unsupported, match="not all that would raise"):
        lower(lambda x, y: (x // y)[:, 1:] + 1, [x, y])


SHAPES = ((2, 130), (3, 5, 16), (2, 2, 64), (5, 2), (1, 258), (0, 4), (2, 3, 50))


def rotate_half(x):
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), -1)


def rotary(x, cos, sin):
    return x * cos + rotate_half(x) * sin


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rotary(shape):
    def inputs(dtype):
        return [make(dtype, shape), make(dtype, shape[-1:], 1), make(dtype, shape[-1:], 2)]

    check_all([(rotary, inputs(dtype)) for dtype in (torch.float64, torch.float32)])
    check_all([(lambda x: rotate_half(x).abs(), [make(torch.bfloat16, shape)])])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sizes(shape):
    functions = (
        lambda x: torch.cat([x, x + 1], -1),
        lambda x: torch.cat([x, x + 1], 0),
        lambda x: F.pad(x, (1, 1)),
        lambda x: x.roll(1, -1),
        lambda x: x.tril(),
        lambda x: torch.arange(x.shape[-1]) + x,
    )
    check_all([(f, [make(torch.int32, shape)]) for f in functions])


def test_no_dimensions():
    x = make(torch.float32, ())
    check_all(
        [
            (lambda x: torch.stack([x, x + 1]), [x]),
            (lambda x: torch.ones(()) * x, [x]),
            (lambda x: x.repeat(3), [x]),
        ]
    )


def test_new_sizes_need_no_new_text():
    def f(x, y, table, index):
        return torch.cat([x, F.pad(y, (0, 0, 2, 0))], 0).tril(1) + F.embedding(index, table)

    def inputs(n, m):
        index = torch.zeros(n + m + 2, dtype=torch.int64)
        return [torch.ones(n, 9), torch.ones(m, 9), torch.ones(n * 7, 9), index]

    assert lower(f, inputs(5, 7)).cpu() == lower(f, inputs(11, 14)).cpu()


REFUSED = (
    (lambda x: torch.arange(0.0, 4.0, 0.5) + x, "rounded"),
    (lambda x: torch.arange(2**24, 2**24 + 8, dtype=torch.float32) + x, "rounded"),
    (lambda x: x.roll(2), "across dimensions"),
    (lambda x: x.slice_scatter(x[:, ::2], 1, 0, 6, 2), "more than one step"),
    (lambda x: torch.cat([x.exp(), x.sin()]), "takes long"),
    (lambda x: torch.cat([x] * 9), "one by one"),
    (lambda x: x[torch.arange(3)][1:] + 1, "not all that would raise"),
    (lambda x: torch.cat([x[torch.arange(3)][:0], x]) + 1, "no element is read"),
)


@pytest.mark.parametrize("function, reason", REFUSED)
def test_refused(function, reason):
    with pytest.raises(_C.Unsupported, match=reason):
        lower(function, [make(torch.float32)])


def test_every_rule_has_a_sample():
    samples = {**element_samples.MADE, **element_samples.JOINED, **element_samples.FOUND}
    assert set(_C.loops.element_operators()) == {*samples, *element_samples.LOSSES}
