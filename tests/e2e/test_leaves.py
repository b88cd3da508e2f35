"""Tensors that a program makes leaves of the graph, and programs that ask whether tensors are."""

import pytest
import torch
import torch.nn.functional as F

import fulgurite
from tests.e2e.round_trip import check as check_round_trip


def module_made_inside(x):
    return torch.nn.Linear(3, 2)(x)


def zeros_that_require_grad(x):
    return torch.zeros(3, requires_grad=True) + x


def leaf_and_what_depends_on_it(x):
    z = (x * 1).detach().requires_grad_()
    return z, (z * 2).sum()


def used_before_and_after(x):
    z = torch.ones(3)
    before = z * 2
    z.requires_grad_()
    return before, z * x


def leaf_that_no_result_depends_on(x):
    with torch.enable_grad():
        z = x.detach().clone().requires_grad_()
        (gradient,) = torch.autograd.grad((z * z).sum(), z)
    return x + gradient


PROGRAMS = [
    module_made_inside, zeros_that_require_grad, leaf_and_what_depends_on_it,
    used_before_and_after, leaf_that_no_result_depends_on,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("grad_mode", [torch.enable_grad, torch.no_grad])
def test_leaves(program, grad_mode):
    compiled = fulgurite.jit(program)
    x = torch.arange(6.0).reshape(2, 3)
    for _ in range(2):
        seen = []
        for function in (program, compiled):
            torch.manual_seed(0)
            with grad_mode():
                result = function(x)
            results = result if isinstance(result, tuple) else (result,)
            seen.append([(t.tolist(), t.requires_grad, t.is_leaf) for t in results])
        assert seen[0] == seen[1]
    assert fulgurite.cache_misses(compiled) == 1
    check_round_trip(program, x)


def test_the_gradient_reaches_the_leaf():
    compiled = fulgurite.jit(leaf_and_what_depends_on_it)
    leaf, total = compiled(torch.ones(3))
    total.backward()
    assert leaf.grad.tolist() == [2.0] * 3


class MakesItsParameter(torch.nn.Module):
    def forward(self, x):
        if not hasattr(self, "weight"):
            self.weight = torch.nn.Parameter(torch.ones(3))
        return x * self.weight


def test_a_parameter_that_the_call_makes_is_refused():
    module = MakesItsParameter()
    compiled = fulgurite.jit(module)
    with pytest.raises(fulgurite.Unsupported, match="Parameter that it makes"):
        compiled(torch.ones(3))
    assert not list(module.parameters())
    module(torch.ones(3))
    assert compiled(torch.ones(3)).requires_grad


@pytest.mark.parametrize("given", [False, True])
def test_an_argument_keeps_what_the_caller_gave_it(given):
    def program(x):
        x.requires_grad_(not given)
        return x * 2

    with pytest.raises(fulgurite.Unsupported, match="the argument x is made to"):
        fulgurite.jit(program)(torch.ones(3, requires_grad=given))


def test_programs_that_ask_take_the_way_of_eager():
    def program(x):
        return x + 1 if torch.compiler.is_compiling() else x - 1

    assert fulgurite.jit(program)(torch.ones(1)).item() == 0.0


@pytest.mark.parametrize("multiply", [F.linear, lambda x, w: x @ w.t(), torch.matmul])
def test_products_of_parameters_fold_as_in_eager(multiply):
    """at::matmul asks whether a parameter requires grad, even where no graph is made."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(24, 24))
    x = torch.randn(2, 16, 24).transpose(0, 1)
    with torch.no_grad():
        assert torch.equal(fulgurite.jit(multiply)(x, weight), multiply(x, weight))


def rows_of_zeros(x, y):
    z = torch.zeros(3, 3)
    z[0] = y[0]
    return z * 2


def rows_that_are_read_meanwhile(x, y):
    z = torch.zeros(3, 3)
    for i in range(3):
        z[i] = y[i]
        y = y + z[i, :2].sum()
    return z * 2


def view_of_what_is_written(x, y):
    z = torch.zeros_like(x)
    v = z[1]
    z[0] = y[0]
    return v * 2, z


def detached_from_what_was_written(x, y):
    z = torch.zeros(3, 3)
    v = z[0]
    z.copy_(y)
    return v * 2, v.detach() * 2


def copy_of_an_argument(x, y):
    z = x.detach().clone()
    z[0] = y[0]
    return z[0] * 2


@pytest.mark.parametrize("program", [
    rows_of_zeros, rows_that_are_read_meanwhile, view_of_what_is_written, copy_of_an_argument,
    detached_from_what_was_written,
])  # fmt: skip
def test_histories_that_come_by_writes(program):
    outcomes = []
    for f in (program, fulgurite.jit(program)):
        y = torch.arange(9.0).view(3, 3).requires_grad_()
        results = f(torch.ones(3, 3), y)
        results = results if isinstance(results, tuple) else (results,)
        sum(result.sum() for result in results if result.requires_grad).backward()
        outcomes.append((results, [result.requires_grad for result in results], y.grad))
    (eager, required, gradient), (found, found_required, found_gradient) = outcomes
    assert all(map(torch.equal, eager, found))
    assert required == found_required and torch.equal(gradient, found_gradient)


@pytest.mark.parametrize("write", [
    lambda x, y: x.detach()[0].mul_(y.sum()),
    lambda x, y: x.data[0].copy_(y[0]),
    lambda x, y: x.detach().t().add_(y),
])  # fmt: skip
def test_histories_do_not_go_through_detach(write):
    def program(x, y):
        z = x * 1
        write(z, y)
        return z * 2

    with pytest.raises(fulgurite.Unsupported, match=r"through detach\(\) or .data"):
        fulgurite.jit(program)(torch.ones(3, 3), torch.ones(3, 3, requires_grad=True))


def test_a_detached_state_may_get_a_history():
    def program(h, y):
        h = (h * 2).detach()
        h[0] = y[0]
        return h * y

    compiled, results = fulgurite.jit(program), []
    for f in (program, compiled):
        y = torch.ones(3, 3, requires_grad=True)
        f(torch.ones(3, 3), y).sum().backward()
        results.append(y.grad)
    assert torch.equal(*results)
