"""Numbers that a program takes out of traced tensors with item() and computes with."""

import builtins
import math

import pytest
import torch

import fulgurite
from fulgurite import Unsupported


def scaled(x, s):
    n = s.item()
    return x * (1 - 0.9**n) / n + abs(-n) ** 0.5, x.add(x, alpha=2 * n - 1)


def summed(x, s):
    return (x * s).sum().item()


def both(x, s):
    n = (x * s).sum().item()
    return {"loss": n, "again": [n, 2 * n], "x": x + n}


def in_lists(x, s):
    return torch._foreach_mul([x, x + 1], [s.item(), 3.0])


def by_the_way(x, s):
    """A 0-dim tensor where torch wants a number."""
    return x.add(x, alpha=s), torch.addcmul(x, x, x, value=s)


def with_bools(x, s):
    n = s.item()
    return True + n, n * False, x * (n - True)


def promoted(x, s):
    n = s.item()
    return torch.ones((), dtype=torch.int64) * n, torch.ones((), dtype=torch.float16) / n, n / x


def after_a_write(x, s):
    s.add_(1)
    first = s.item()
    s.mul_(2)
    return x * first, x * s.item()


def is_a_float(x, s):
    return x * s.item() if isinstance(s.item(), float) else x


def decided(x, s):
    n = s.item()
    if n > 1.5 and n != 3.5:
        return x * max(n, 2)
    return x - min(n, 1)


def filled(x, s):
    return torch.full((2,), s.item()), x.clamp(min=s.item()), torch.where(x > 1, x, s.item())


VALUES = [1.0, 2.5, 3.5, 0.25, 2.5]


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    "f, most",
    [
        (f, 1)
        for f in (scaled, summed, both, in_lists, by_the_way, with_bools, promoted, after_a_write)
    ]
    + [(is_a_float, 1), (filled, 1), (decided, 4)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_as_eager(f, most, dtype):
    compiled = fulgurite.jit(f)
    for value in VALUES:
        x, s = torch.arange(1.0, 4), torch.tensor(value, dtype=dtype)
        x2, s2 = x.clone(), s.clone()
        assert same(compiled(x, s), f(x2, s2)), value
        assert same((x, s), (x2, s2))
    assert fulgurite.cache_misses(compiled) <= most


@pytest.mark.parametrize("f", [scaled, after_a_write, in_lists, filled, promoted])
def test_the_trace_is_a_program(f):
    compiled = fulgurite.jit(f)
    x, s = torch.arange(1.0, 4), torch.tensor(2.5)
    compiled(x.clone(), s.clone())
    for trace in fulgurite.last_traces(compiled):
        scope = {}
        exec(trace.text(), scope)
        assert "torch.ops.fulgurite" not in trace.text()
        assert same(
            tuple(scope["computation"](x.clone(), s.clone())), tuple(f(x.clone(), s.clone()))
        )


def test_text():
    compiled = fulgurite.jit(lambda x, s: x.add(x, alpha=2 * s.item() - 1))
    compiled(torch.ones(2), torch.tensor(1.0))
    text = fulgurite.last_traces(compiled)[0].text()
    assert "= s.item()" in text and "((2.0 * " in text


def test_gradients():
    def f(x, s):
        return (x * s.item()).sum() * 2

    x, s = torch.ones(3, requires_grad=True), torch.tensor(2.5, requires_grad=True)
    fulgurite.jit(f)(x, s).backward()
    assert x.grad.tolist() == [5, 5, 5] and s.grad is None


@pytest.mark.parametrize(
    "f",
    [
        lambda x, s: x * float(s.item()),
        lambda x, s: x * math.sqrt(s.item()),
        lambda x, s: x * len(f"{s.item()}"),
        lambda x, s: x * {1.0: 2}[s.item()],
        lambda x, s: x * (s.item() // 1),
        lambda x, s: torch.arange(s.item()) + x[0],
        lambda x, s: x * int(s.item()),
        lambda x, s: torch.as_tensor(s.item()) + x,
        lambda x, s: x if x.sum().item() > 100 and x.mul(2).sum().item() else x * 2,
        lambda x, s: x * (2 if type(s.item()) is float else 3),
    ],
)
def test_refused(f):
    with pytest.raises(Unsupported, match="test_numbers.py"):
        fulgurite.jit(f)(torch.ones(3), torch.tensor(1.0))


def test_what_python_raises():
    compiled = fulgurite.jit(lambda x, s: x * (1 / s.item()))
    compiled(torch.ones(2), torch.tensor(2.0))
    with pytest.raises(ZeroDivisionError):
        compiled(torch.ones(2), torch.tensor(0.0))
    root = fulgurite.jit(lambda x, s: x * s.item() ** 0.5)
    root(torch.ones(2), torch.tensor(2.0))
    assert root(torch.ones(2), torch.tensor(-2.0)).is_complex()


def test_a_number_that_is_kept():
    module = torch.nn.Linear(2, 2)

    def f(x):
        module.last = x.sum().item()
        return module(x)

    compiled = fulgurite.jit(f)
    for i in range(3):
        compiled(torch.full((1, 2), float(i)))
        assert type(module.last) is float and module.last == 2 * i
    assert fulgurite.cache_misses(compiled) == 1


def test_constants_beside_a_number_in_a_list_are_finite_floats():
    def listed(constant):
        return lambda x, s: torch._foreach_mul([x, x], [s.item(), constant])

    x, s = torch.ones(2), torch.tensor(2.0)
    zeros = fulgurite.jit(listed(-0.0))(x, s)[1]
    assert torch.equal(zeros, -torch.zeros(2))
    assert torch.signbit(zeros).all()
    for constant in (3, True, math.inf, math.nan):  # the first two are promoted otherwise
        with pytest.raises(Unsupported, match="no finite float"):
            fulgurite.jit(listed(constant))(x, s)


def test_zero_to_minus_infinity_is_infinite():
    def program(s):
        return torch.ones(2) * 0.0 ** s.item()

    s = torch.tensor([-math.inf])
    assert torch.equal(fulgurite.jit(program)(s), program(s))


def test_an_argument_may_have_the_name_of_a_builtin_function():
    def program(abs, s):
        return abs * builtins.abs(s.item())

    compiled = fulgurite.jit(program)
    inputs = torch.ones(2), torch.tensor(-3.0)
    compiled(*inputs)
    scope = {}
    exec(fulgurite.last_traces(compiled)[0].text(), scope)
    assert torch.equal(scope["computation"](*inputs), program(*inputs))
