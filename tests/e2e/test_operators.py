"""Operators of torch.library, and register_operator."""

import pytest
import torch

import fulgurite
from fulgurite import UserError, register_operator


@torch.library.custom_op("fulgurite_ops::scale", mutates_args=())
def scale(x: torch.Tensor, s: float) -> torch.Tensor:
    return x * s


scale.register_fake(lambda x, s: torch.empty_like(x))
scale.register_autograd(
    lambda ctx, grad: (grad * ctx.s, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "s", inputs[1]),
)


@torch.library.custom_op("fulgurite_ops::bump", mutates_args=("x",))
def bump(x: torch.Tensor) -> None:
    x.add_(1)


def sinc(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.sin(x * factor) / (x * factor)


def gradient_of_sinc(grad, x, factor):
    y = x * factor
    return grad * (torch.cos(y) / y - torch.sin(y) / y**2) * factor, None


registered = register_operator(
    "fulgurite_ops::sinc",
    sinc,
    fake=lambda x, factor: torch.empty_like(x),
    gradient=gradient_of_sinc,
)


def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x / 2, x - x / 2


register_operator(
    "fulgurite_ops::halves",
    halves,
    fake=lambda x: (torch.empty_like(x), torch.empty_like(x)),
    gradient=lambda grads, x: grads[0] / 2 + grads[1] / 2,
)


def scaled(x):
    return scale(x * 2, 3.0) + 1


def bumped(x):
    y = x * 2
    bump(y)
    return y * 3, scale(y, 2.0)


def bumps_its_argument(x):
    bump(x)
    return x * 2


def of_sinc(x):
    return torch.ops.fulgurite_ops.sinc(x + 1, 0.5) * 2


def of_halves(x):
    a, b = torch.ops.fulgurite_ops.halves(x)
    return a * b


PROGRAMS = [scaled, bumped, bumps_its_argument, of_sinc, of_halves]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_it_is_captured_printed_run_and_differentiated(program, grad):
    leaf = torch.rand(3, requires_grad=grad)
    compiled = fulgurite.jit(program, verify=True)
    for _ in range(2):
        mine, theirs = leaf * 1, leaf * 1
        actual, expected = compiled(mine), program(theirs)
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(mine, theirs)
        if grad:
            results = [r if isinstance(r, torch.Tensor) else r[0] for r in (actual, expected)]
            torch.testing.assert_close(*[torch.autograd.grad(r.sum(), leaf)[0] for r in results])
    # With gradients the last one is one half of the program.
    trace = fulgurite.last_traces(compiled)[0 if grad else -1]
    assert "torch.ops.fulgurite_ops." in trace.text()
    scope = {}
    exec(trace.text(), scope)
    with torch.no_grad():
        results = [f(leaf.detach().clone()) for f in (scope["computation"], program)]
        torch.testing.assert_close(*results)


def test_an_executor_can_take_it():
    executor = fulgurite.OperatorExecutor("fast", gradient="recompute")
    executor.register_implementation(
        registered, lambda x, factor: torch.sinc(x * factor / torch.pi)
    )
    x = torch.rand(3, requires_grad=True)
    compiled = fulgurite.jit(of_sinc, executors=[executor, "aten"])
    torch.testing.assert_close(compiled(x), of_sinc(x))
    assert "# executor: fast" in fulgurite.last_traces(compiled)[-1].text()
    gradients = [torch.autograd.grad(f(x).sum(), x)[0] for f in (compiled, of_sinc)]
    torch.testing.assert_close(*gradients)


def test_bad_operators_are_refused():
    def unannotated(x):
        return x

    for name, function, options, text in (
        ("sinc", sinc, {"fake": sinc}, "name is like"),
        ("fulgurite_ops::sinc", sinc, {"fake": sinc}, "already"),
        ("fulgurite_ops::new", 3, {"fake": sinc}, "function of the operator"),
        ("fulgurite_ops::new", sinc, {"fake": None}, "fake of the operator"),
        ("fulgurite_ops::new", unannotated, {"fake": sinc}, "cannot be registered"),
        (
            "fulgurite_ops::new",
            sinc,
            {"fake": sinc, "gradient": sinc, "mutates": ("x",)},
            "writes to its arguments",
        ),
    ):
        with pytest.raises(UserError, match=text):
            register_operator(name, function, **options)


def test_a_gradient_of_another_length_is_an_error():
    def twice(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    operator = register_operator(
        "fulgurite_ops::twice",
        twice,
        fake=lambda x, n: torch.empty_like(x),
        gradient=lambda grad, x, n: grad * n,
    )
    x = torch.rand(3, requires_grad=True)
    with pytest.raises(UserError, match="returned 1 values for 2 arguments"):
        fulgurite.jit(lambda x: operator(x, 2))(x).sum().backward()
