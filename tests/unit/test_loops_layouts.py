"""Loop programs over every layout of their inputs, and views of what is computed on the way."""

import itertools

import pytest
import torch
from loop_harness import COMPILER, WIDEST, Kernels, lower

from fulgurite import _C

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs clang++-19")
KERNELS = {64: Kernels(WIDEST), 32: Kernels(32)}

LAYOUTS = {
    "plain": lambda x: x,
    "transposed": lambda x: x.transpose(-1, -2) if x.dim() > 1 else x,
    "sliced": lambda x: x[..., 1:] if x.dim() and x.size(-1) > 1 else x,
    "strided": lambda x: x[..., ::2] if x.dim() else x,
    "expanded": lambda x: x[:1].expand_as(x) if x.dim() and x.size(0) else x,
    "offset": lambda x: x[1:] if x.dim() and x.size(0) > 1 else x,
    "overlapping": lambda x: x.as_strided(x.shape, [1] * x.dim()),
}
SHAPES = (
    (),
    (0,),
    (1,),
    (3,),
    (17,),
    (64,),
    (1000,),
    (3, 0),
    (4, 5),
    (33, 65),
    (2, 3, 4),
    (2, 1, 5, 7),
)
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.float64, torch.bool)


def make(shape, dtype):
    x = torch.arange(torch.Size(shape).numel(), dtype=torch.float64).reshape(shape)
    return (
        (x % 2 == 1)
        if dtype == torch.bool
        else (x % 100 - (0 if dtype == torch.uint8 else 50)).to(dtype)
    )


def check(function, *inputs):
    check_all([(function, inputs)])


def check_all(cases, chunk=0, vector_bytes=64):
    """Texts are compiled together."""
    kernels = KERNELS[vector_bytes]
    programs = [lower(function, inputs) for function, inputs in cases]
    if any(kernels.add(program) in kernels.pending for program in programs):
        kernels.compile()
    for program, (function, inputs) in zip(programs, cases, strict=True):
        expected = function(*inputs)
        expected = [expected] if isinstance(expected, torch.Tensor) else list(expected)
        got = kernels.run(program, list(inputs), chunk)
        for g, e in zip(got, expected, strict=True):
            assert g.dtype == e.dtype and g.shape == e.shape and g.stride() == e.stride()
            assert torch.equal(g, e)


def copy(x):
    return x.clone()


def twice(x):
    return torch.maximum(x, x)


def both(x, y):
    return x + y, x * y


@pytest.mark.parametrize("vector_bytes", (64, 32))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(layout, vector_bytes):
    inputs = [(LAYOUTS[layout](make(s, d)),) for s, d in itertools.product(SHAPES, DTYPES)]
    check_all([(copy, x) for x in inputs], 0, vector_bytes)
    check_all([(twice, x) for x in inputs], 7, vector_bytes)


def test_two_layouts_together():
    cases = []
    for shape in SHAPES:
        for first, second in itertools.product(LAYOUTS.values(), repeat=2):
            x, y = first(make(shape, torch.float32)), second(make(shape, torch.float32) + 0.5)
            if x.shape == y.shape:
                cases.append((both, (x, y)))
    check_all(cases, 5)


BROADCAST = (
    ((3, 4), (4,)),
    ((3, 1), (1, 4)),
    ((2, 3, 4), (3, 1)),
    ((5,), ()),
    ((), ()),
    ((2, 1, 4), (3, 1)),
)


@pytest.mark.parametrize("shapes", BROADCAST, ids=str)
def test_broadcast(shapes):
    for dtypes in itertools.product((torch.float32, torch.int32, torch.bfloat16), repeat=2):
        x, y = (make(s, d) for s, d in zip(shapes, dtypes, strict=True))
        check_all([(lambda x, y: x - y, (x, y)), (lambda x, y: y < x, (x, y))])


VIEWS = {
    "permute": lambda x: x.neg().permute(2, 0, 1).abs(),
    "transpose": lambda x: x.neg().transpose(0, 2) + 1,
    "unsqueeze": lambda x: x.neg().unsqueeze(1).abs(),
    "expand": lambda x: x.neg()[:, :1].expand(x.shape) * x,
    "select": lambda x: x.neg()[1] + 1,
    "slice": lambda x: x.neg()[:, 1:, ::2] * 2,
    "negative_slice": lambda x: x.neg()[..., -3:-1] * 2,
    "split": lambda x: x.neg().split(2, dim=-1)[1] * 2,
    "chunk": lambda x: x.neg().chunk(2, dim=-1)[0] * 2,
    "unbind": lambda x: x.neg().unbind(1)[1] * 2,
    "flip": lambda x: x.neg().flip(0, -1) * 2,
    "flip_input": lambda x: x.flip(-1),
    "merge": lambda x: x.neg().reshape(4, -1) * 2,
    "merge_all": lambda x: x.neg().reshape(-1) * 2,
    "split_dim": lambda x: x.neg().view(4, 6, 2, 4) * 2,
    "heads": lambda x: (x.neg().view(4, 6, 2, 4).transpose(1, 2) * 2).sum(-1),
    "merged_heads": lambda x: (x.neg().view(4, 6, 2, 4).transpose(1, 2) * 2).reshape(4, 12, 4) + 1,
    "squeeze": lambda x: x.neg().unsqueeze(0).squeeze(0) * 2,
    "rotate": lambda x: x.neg()[..., 4:] * x[..., :4],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_what_is_computed(name):
    inputs = [(make((4, 6, 8), dtype),) for dtype in (torch.float32, torch.int64)]
    check_all([(VIEWS[name], x) for x in inputs], 3)


def test_equal_kinds_of_strides_give_one_text():
    def f(x, y):
        return (x + y) * y

    texts = {
        lower(f, [torch.ones(shape), torch.ones(shape[-1:])]).cpu()
        for shape in ((3, 4), (7, 100), (1000, 17))
    }
    assert len(texts) == 1
    assert lower(f, [torch.ones(3, 4).t(), torch.ones(3)]).cpu() not in texts


def test_views_of_inputs_are_not_copied():
    with pytest.raises(_C.Unsupported, match="shares memory"):
        lower(lambda x: x.t(), [torch.ones(3, 4)])
    with pytest.raises(_C.Unsupported, match="shares memory"):
        lower(lambda x: x.neg().chunk(2), [torch.ones(4)])


TRANSPOSED = {
    "matrix": lambda x, y: x.transpose(-1, -2) + y.transpose(-1, -2).contiguous(),
    "twice": lambda x, y: (x.transpose(-1, -2) * 2, y.transpose(-1, -2) + x.transpose(-1, -2)),
    "rows": lambda x, y: x.transpose(-1, -2) + y[..., :1, :].transpose(-1, -2),
}


@pytest.mark.parametrize("vector_bytes", (64, 32))
@pytest.mark.parametrize("chunk", (0, 700))
def test_reads_across_rows_by_tiles(vector_bytes, chunk):
    shapes = ((48, 64), (37, 50), (3, 35, 81), (2, 16, 16))
    cases = [
        (function, (make(shape, dtype), make(shape, dtype) * 3))
        for function in TRANSPOSED.values()
        for shape in shapes
        for dtype in DTYPES
        if dtype != torch.bool
    ]
    check_all(cases, chunk, vector_bytes)
