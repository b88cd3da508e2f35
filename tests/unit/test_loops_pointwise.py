"""Every pointwise rule against eager, over all dtypes, with special values; then layouts."""

import inspect
from itertools import zip_longest

import pytest
import torch
from loop_harness import COMPILER, Kernels, lower
from pointwise_samples import ELSEWHERE, SAMPLES

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
    more = (
        (more > 0)
        if dtype == torch.bool
        else more.to(dtype if dtype.is_floating_point else torch.int8).to(dtype)
    )
    columns = [
        torch.cat([pairs[:, i % 2], more[torch.randperm(173, generator=generator)]])
        for i in range(2)
    ]
    order = torch.randperm(len(columns[0]), generator=generator)
    return [*columns, columns[0][order]][:count]


def cases():
    for name, functions in SAMPLES.items():
        for i, function in enumerate(functions):
            yield pytest.param(name, function, id=f"{name}-{i}")


def inputs_of(function, dtype):
    inputs = operands(dtype, parameters(function))
    names = [*inspect.signature(function).parameters] if inspect.isfunction(function) else []
    return [
        x.flatten()[3] if name == "zero_dim" else x
        for name, x in zip_longest(names[: len(inputs)], inputs)
    ]


def parameters(function):
    try:
        kinds = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    return max(1, sum(p.default is p.empty and p.kind == p.POSITIONAL_OR_KEYWORD for p in kinds))


def eager(function, inputs):
    results = function(*inputs)
    return [results] if isinstance(results, torch.Tensor) else list(results)


KERNELS = Kernels()


def as_double(t):
    return t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t


# Where ATen's vectors and its scalars differ, or it is wrong: what is left out of the comparison.
def quotient_is_huge(x, y):
    return (x.double() / y.double()).abs() > 1e15


LEFT_OUT = {
    "remainder.Tensor": quotient_is_huge,
    "remainder.Scalar_Tensor": lambda x: quotient_is_huge(torch.tensor(7.0), x),
    "fmod.Tensor": quotient_is_huge,
    "gelu": lambda x: x == float("inf"),
}
# Either zero is right, or, of gelu_backward, what is left of two terms: that depends on the processor.
ANY_ZERO = {"fmax", "fmin", "softshrink", "gelu_backward"}
# Differences of numbers of about 1: errors are those of 1, times the operands.
CANCELS = {"gelu", "gelu_backward", "silu_backward", "tanh_backward"}


def slack(inputs):
    eps = 8 * torch.finfo(torch.float64 if inputs[0].dtype == torch.float64 else torch.float32).eps
    product = 1.0
    for x in inputs:
        product = product * x.double().abs().clamp(min=1)
    return eps * product


def check_equal(got, expected, exact, name, left_out=None, absolute=0.0):
    """Equal to eager, or nearer than twice eager's distance to `exact`, in float64."""
    assert got.dtype == expected.dtype and got.shape == expected.shape, name
    if not got.dtype.is_floating_point:
        wrong = got != expected
        assert not wrong.any(), f"{name}: {got[wrong][:5]} for {expected[wrong][:5]}"
        return
    wide, reference, exact = got.double(), expected.double(), exact.double()
    both_nan = torch.isnan(wide) & torch.isnan(reference)
    tolerance = TOLERANCE[got.dtype]
    tiny = torch.finfo(got.dtype).tiny * 2
    close = (wide - reference).abs() <= reference.abs() * tolerance + tiny + absolute
    better = (wide - exact).abs() <= (reference - exact).abs() * 2
    fine = (wide == reference) | close | better | both_nan
    zero = (wide == 0) & (reference == 0)
    if name.split()[0] not in ANY_ZERO:
        fine &= (torch.signbit(wide) == torch.signbit(reference)) | ~zero
    if left_out is not None:
        fine |= left_out
    wrong = ~fine
    assert not wrong.any(), f"{name}: {wide[wrong][:5]} for {reference[wrong][:5]}"


def programs(function):
    for dtype in DTYPES:
        inputs = inputs_of(function, dtype)
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
        if item.fspath == request.fspath and "function" in getattr(
            item, "callspec", item
        ).__dict__.get("params", {}):
            for _, program, _, _ in programs(item.callspec.params["function"]):
                KERNELS.add(program)
    KERNELS.compile()


@pytest.mark.parametrize("name, function", list(cases()))
def test_rule(name, function):
    tried = 0
    for dtype, program, inputs, expected in programs(function):
        tried += 1
        got = KERNELS.run(program, inputs, chunk=64)
        exact = eager(function, [as_double(x) for x in inputs])
        left_out = LEFT_OUT[name](*inputs) if name in LEFT_OUT else None
        for g, e, x in zip(got, expected, exact, strict=True):
            absolute = slack(inputs) if name in CANCELS else 0.0
            check_equal(g, e, x, f"{name} of {dtype}", left_out, absolute)
    assert tried, "no dtype at all"


def test_every_rule_has_a_sample():
    assert set(_C.loops.pointwise_operators()) == {*SAMPLES, *ELSEWHERE}


def test_narrow_results_keep_denormal_numbers():
    x = (torch.arange(1, 100) * 2.0**-133).bfloat16()
    got = KERNELS.run(lower(lambda x: x * 0.5, [x]), [x])[0]
    assert torch.equal(got, x * 0.5) and got.count_nonzero() > 90
