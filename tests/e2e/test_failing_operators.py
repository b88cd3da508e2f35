"""An operator that raises an error which depends on data, after the capture knew nothing of it."""

import traceback
import warnings

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import fulgurite


def _safe_cholesky(a):
    for jitter in (0.0, 1e-3, 1e-1, 10.0):
        try:
            return torch.linalg.cholesky(a + jitter * torch.eye(2))
        except torch.linalg.LinAlgError:
            continue


def test_program_handles_it():
    good, bad = torch.eye(2), torch.tensor([[1.0, 2.0], [2.0, 1.0]])
    compiled = fulgurite.jit(_safe_cholesky)
    for matrix in (good, bad, good, bad):
        assert torch.equal(compiled(matrix), _safe_cholesky(matrix))


def test_state_and_lines_are_eagers():
    seen = []

    def f(x, i):
        seen.append(1)
        noise = torch.rand(2)
        return x[i] + noise.sum()

    compiled, x = fulgurite.jit(f), torch.ones(3)
    compiled(x, torch.tensor([1]))
    torch.manual_seed(1)
    with pytest.raises(IndexError) as error:
        compiled(x, torch.tensor([7]))
    drawn = torch.get_rng_state()
    assert seen == [1, 1]
    assert traceback.extract_tb(error.value.__traceback__)[-1].name == "f"
    torch.manual_seed(1)
    torch.rand(2)
    assert torch.equal(torch.get_rng_state(), drawn)


def test_writes_before_it_are_eagers():
    def f(x, i):
        x.add_(1)
        return x[i]

    compiled, x = fulgurite.jit(f), torch.ones(3)
    compiled(torch.ones(3), torch.tensor([0]))
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([9]))
    assert x.tolist() == [2, 2, 2]


def test_hooks_of_saved_tensors_may_raise():
    def pack(_):
        packed.append(1)
        raise ValueError("from pack")

    packed, compiled = [], fulgurite.jit(lambda x: (x.sin() * 2).exp())
    for calls in (1, 2):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            with pytest.raises(ValueError, match="from pack"):
                compiled(torch.ones(2, requires_grad=True))
        assert len(packed) == calls


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_of_a_compiled_function(reentrant):
    """Recomputation is stopped by an exception that a hook raises."""

    def f(x):
        return torch.nn.functional.dropout((x.sin() * 2).exp(), 0.5) * x

    grads = {}
    for g in (f, fulgurite.jit(f)):
        torch.manual_seed(3)
        for _ in range(3):
            x = torch.arange(1.0, 5.0).requires_grad_()
            checkpoint(g, x, use_reentrant=reentrant).sum().backward()
            grads.setdefault(g is f, []).append(x.grad)
    torch.testing.assert_close(torch.stack(grads[True]), torch.stack(grads[False]))


@pytest.mark.parametrize("name", ["var", "std_mean"])
def test_warnings_come_before_the_error(name):
    def f(x, i):
        return getattr(torch.ops.aten, name)(x), x[i]

    compiled, x = fulgurite.jit(f, executors=["aten"]), torch.ones(1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compiled(x, torch.tensor([0]))
        with pytest.raises(IndexError):
            compiled(x, torch.tensor([7]))
    assert told


@pytest.mark.parametrize("f", [
    lambda x, n: x * (1 / n),
    lambda x, n: x * n**-1,
    lambda x, n: x * n**400,
    lambda x, n: x * n**0.5,
])  # fmt: skip
def test_arithmetic_of_numbers_raises_as_python_does(f):
    def g(x, t):
        try:
            return f(x, t.item())
        except ArithmeticError as error:
            return type(error)

    def same(a, b):
        return torch.equal(a, b) if isinstance(a, torch.Tensor) else a is b

    compiled, x = fulgurite.jit(g), torch.ones(2)
    for value in (2.0, 0.0, -4.0, 1e9, 2.0):
        t = torch.tensor(value)
        assert same(compiled(x, t), g(x, t)), value


def test_what_was_done_before_an_exit_stays():
    seen = []

    def f(x, leave):
        seen.append(leave)
        if leave:
            raise SystemExit(4)
        return x * 2

    compiled = fulgurite.jit(f)
    compiled(torch.ones(1), False)
    with pytest.raises(SystemExit):
        compiled(torch.ones(1), True)
    assert seen == [False, True]
