"""Every pointwise rule against eager, over all dtypes, with special values; then layouts."""

import inspect
import itertools

import pytest
import torch
from loop_harness import COMPILER, Kernels, lower
from pointwise_samples import SAMPLES

from fulgurite import _C

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs clang++-19")

INTS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DTYPES = (torch.bool, *INTS, *FLOATS)
# Relative errors that one operator may have; several ulp, as ATen's own.
TOLERANCE = {
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
    torch.float32: 2e-6,
    torch.float64: 4e-15,
}


def special(dtype):
    if dtype == torch.bool:
        return torch.tensor([False, True])
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        values = [0, 1, 2, 3, 5, 7, 9, 31, 64, 100, info.max, info.max - 1, info.min]
        values += [] if info.min == 0 else [-1, -2, -3, -7, -100]
        return torch.tensor(values, dtype=dtype)
    info = torch.finfo(dtype)
    values = [0.0, -0.0, 1, -1, 0.5, -0.5, 2.5, -2.5, 3, -3, 0.1, -0.3, 7, 1e-3, -1e-3, 20, -20, 88]
    values += [-88, 100, -100, info.max, -info.max, info.tiny, -info.tiny, info.tiny / 4, 1e-7]
    values += [float("inf"), float("-inf"), float("nan")]
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def operands(dtype, count):
    """All pairs of special values, and some others; more operands by permutation."""
    values = special(dtype)
    pairs = torch.cartesian_prod(values, values) if count > 1 else torch.stack([values, values], 1)
    generator = torch.Generator().manual_seed(7)
    more = torch.randn(173, generator=generator, dtype=torch.float64) * 3
    more = (more > 0) if dtype == torch.bool else more.to(dtype if dtype.is_floating_point else torch.int8).to(dtype)
    columns = [torch.cat([pairs[:, i % 2], more[torch.randperm(173, generator=generator)]]) for i in range(2)]
    order = torch.randperm(len(columns[0]), generator=generator)
    return [*columns, columns[0][order]][:count]


def cases():
    for name, functions in SAMPLES.items():
        for i, function in enumerate(functions):
            yield pytest.param(name, function, id=f"{name}-{i}")


def parameters(function):
    try:
        kinds = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    return max(1, sum(p.default is p.empty and p.kind == p.POSITIONAL_OR_KEYWORD for p in kinds))


def eager(function, inputs):
    results = function(*inputs)
    return [results] if isinstance(results, torch.Tensor) else list(results)


KERNELS = {}


def kernels(vector_bytes=64):
    return KERNELS.setdefault(vector_bytes, Kernels(vector_bytes))


def check_equal(got, expected, exact, what):
    assert got.dtype == expected.dtype and got.shape == expected.shape, what
    if not got.dtype.is_floating_point:
        wrong = got != expected
        assert not wrong.any(), f"{what}: {got[wrong][:5]} for {expected[wrong][:5]}"
        return
    wide, reference = got.double(), expected.double()
    nan = torch.isnan(reference)
    assert torch.equal(torch.isnan(wide), nan), f"{what}: NaN elsewhere"
    tolerance = TOLERANCE[got.dtype]
    tiny = torch.finfo(got.dtype).tiny * 2
    close = (wide == reference) | ((wide - reference).abs() <= reference.abs() * tolerance + tiny)
    assert (close | nan).all(), f"{what}: {wide[~close & ~nan][:5]} for {reference[~close & ~nan][:5]}"
    zero = (wide == 0) & (reference == 0)
    signs = torch.signbit(wide) == torch.signbit(reference)
    assert (signs | ~zero).all(), f"{what}: the sign of a zero"


def programs(function):
    for dtype in DTYPES:
        inputs = operands(dtype, parameters(function))
        try:
            expected = eager(function, inputs)
        except (RuntimeError, NotImplementedError, ValueError):
            continue
        try:
            yield dtype, lower(function, inputs), inputs, expected
        except _C.Unsupported:
            continue


@pytest.fixture(scope="module", autouse=True)
def compiled(request):
    """All texts of the selected cases, compiled at once."""
    for item in request.session.items:
        if item.fspath == request.fspath and "function" in getattr(item, "callspec", item).__dict__.get("params", {}):
            for _, program, _, _ in programs(item.callspec.params["function"]):
                kernels().add(program)
    kernels().compile()


@pytest.mark.parametrize("name, function", cases())
def test_rule(name, function):
    tried = 0
    for dtype, program, inputs, expected in programs(function):
        tried += 1
        got = kernels().run(program, inputs, chunk=64)
        for g, e in zip(got, expected, strict=True):
            check_equal(g, e, False, f"{name} of {dtype}")
    assert tried, "no dtype at all"
