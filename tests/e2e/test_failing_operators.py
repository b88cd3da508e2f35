"""An operator that raises an error which depends on data, after the capture knew nothing of it."""

import traceback
import warnings

import pytest
import torch

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
