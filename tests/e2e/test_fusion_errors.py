"""What eager's kernels refuse is refused with eager's own error, in fusions and in dead code."""

import inspect
import warnings

import pytest
import torch
import torch.nn.functional as F

import fulgurite
from tests.unit.pointwise_samples import SAMPLES

INTS, BOOLS = torch.tensor([1, 2, 3], dtype=torch.int32), torch.tensor([True, False, True])
ERRORS = (RuntimeError, IndexError, TypeError, ValueError)


def outcome(function, *args):
    """The error, as a type and a text, or the results."""
    try:
        with torch.no_grad():
            return function(*args)
    except ERRORS as error:
        return type(error), str(error)


def is_error(result):
    return isinstance(result, tuple) and isinstance(result[0], type)


def raises_as_eager(function, *args):
    """Or is refused by capture, for want of types: where torch's meta kernel raises."""
    expected = outcome(function, *args)
    assert is_error(expected)
    got = outcome(fulgurite.jit(function), *args)
    return got == expected or got[0] is fulgurite.Unsupported


def assert_raises_as_eager(function, *args):
    expected = outcome(function, *args)
    assert is_error(expected)
    assert outcome(fulgurite.jit(function), *args) == expected


def arguments(function, dtype):
    if not inspect.isfunction(function):
        return [torch.ones(3, dtype=dtype)]
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    return [torch.ones(() if p.name == "zero_dim" else 3, dtype=dtype) for p in needed]


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int32, torch.float16, torch.float]
)
def test_dtypes_without_a_kernel(dtype):
    """Every pointwise rule, on dtypes for which ATen has no kernel."""
    tried = 0
    for functions in SAMPLES.values():
        for function in functions:
            args = arguments(function, dtype)
            if is_error(outcome(function, *args)):
                tried += 1
                assert raises_as_eager(function, *args)
    assert tried > 3


@pytest.mark.parametrize(
    "function, x",
    [
        (lambda x: x.half() ** 2**40, INTS),
        (lambda x: x.half().clamp(max=2**40) + 1, INTS),
        (lambda x: x**2**40, INTS),
        (lambda x: (x > 0) // True, INTS),
        (lambda x: (x * 2) // 0, INTS),
        (lambda x: F.layer_norm(x * 2, (3,)), INTS),
        (lambda x: F.layer_norm(x, (3,), x.float()), INTS),
        (lambda x: F.gelu(x + 1) * 2, INTS),
        (lambda x: (x * 2).logsumexp([]), torch.ones(3)),
        (lambda x: x.abs() & x, torch.ones(3)),
        (lambda x: x.prod() | 1, torch.ones(3)),
        (lambda x: x.abs(), BOOLS),
    ],
)
def test_numbers_and_dtypes_within_a_fusion(function, x):
    assert_raises_as_eager(function, x)


@pytest.mark.parametrize(
    "unused", [lambda x: F.gelu(x), lambda x: x // 0, lambda x: (x > 0) % True, lambda x: x**2**40]
)
def test_an_error_of_what_is_not_used(unused):
    def program(x):
        unused(x)
        return x + 1

    assert_raises_as_eager(program, INTS)


@pytest.mark.parametrize(
    "unused",
    [lambda x, y: x // y, lambda x, y: x % y, lambda x, y: x.fmod(y), lambda x, y: 7 % (y * 2)],
)
def test_a_division_by_zero_of_what_is_not_used(unused):
    def program(x, y):
        unused(x, y)
        return x + 1

    compiled = fulgurite.jit(program)
    assert compiled(INTS, INTS).tolist() == [2, 3, 4]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(INTS, INTS - 2)


def test_what_raises_nothing_and_is_not_used_goes():
    def program(x):
        F.gelu(x)
        return x + 1

    compiled = fulgurite.jit(program)
    compiled(torch.ones(3))
    assert "gelu" not in fulgurite.last_traces(compiled)[-1].text()


def test_asking_is_not_seen():
    """ATen is asked on single elements: of one element it warns, and generators stay."""

    def program(x):
        return x.std(0) * 2 + torch.rand(())

    expected_state = torch.Generator().manual_seed(3)
    torch.manual_seed(3)
    x = torch.ones(4, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = fulgurite.jit(program)
        result = compiled(x)
    assert torch.equal(result, torch.rand((), generator=expected_state).expand(5))


def test_within_other_modes():
    with torch.inference_mode():
        assert_raises_as_eager(lambda x: F.gelu(x + 1) * 2, INTS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_raises_as_eager(lambda x: F.gelu(x + 1) * 2, INTS)
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(NotImplementedError, match="bitwise_and"):
        fulgurite.jit(lambda x: (x * 2) & x)(x)


@pytest.mark.parametrize("executors", [["aten"], ["fused_cpu", "aten"]], ids=["aten", "fused"])
@pytest.mark.parametrize(
    "found",
    [
        lambda x, i: x.gather(0, i),
        lambda x, i: F.gelu(x.index_select(1, i[0])),
        lambda x, i: F.embedding(i, x),
        lambda x, i: F.nll_loss(x, i[0]),
    ],
)
def test_an_index_out_of_bounds_raises_though_nothing_is_used(found, executors):
    def unused(x, i):
        found(x, i)
        return x + 1

    x, i = torch.randn(4, 4), torch.zeros(4, 4, dtype=torch.int64)
    compiled = fulgurite.jit(unused, executors=executors)
    with torch.no_grad():
        compiled(x, i)
    i[0, 2] = 9
    expected = outcome(unused, x, i)
    assert is_error(expected) and outcome(compiled, x, i) == expected


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.int32, torch.tensor(float("inf"))),
        (torch.uint8, torch.tensor(300)),
        (torch.float16, torch.tensor(1e6)),
        (torch.float32, torch.tensor(1e300, dtype=torch.float64)),
    ],
)
def test_a_fill_that_does_not_fit(dtype, value):
    x, mask = torch.ones(3, dtype=dtype), torch.tensor([True, False, True])
    assert_raises_as_eager(lambda x, mask, value: (x + 0).masked_fill(mask, value), x, mask, value)
    fitting = torch.ones_like(value)
    compiled = fulgurite.jit(lambda x, mask, value: (x + 1).masked_fill(mask, value))
    assert torch.equal(compiled(x, mask, fitting), (x + 1).masked_fill(mask, fitting))
