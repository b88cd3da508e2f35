"""Calls of compiled functions inside of what transforms programs itself."""

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import fulgurite


def double_sine(x):
    return torch.sin(x) * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return torch.relu(self.fc(x)) + 1


def targets():
    """(compiled, eager) pairs: a function and a module."""
    net = Net()
    return (fulgurite.jit(double_sine), double_sine), (fulgurite.jit(net), net)


X = torch.rand(2, 3)


def reasons(compiled):
    return fulgurite.compile_data(compiled).fallbacks


@pytest.mark.parametrize("called_before", [False, True])
@pytest.mark.parametrize("which", [0, 1])
class TestInlined:
    """The function's own operators are seen by the other; why is recorded."""

    @pytest.fixture
    def pair(self, which, called_before):
        compiled, eager = targets()[which]
        if called_before:
            compiled(X)
        return compiled, eager

    def test_make_fx(self, pair):
        compiled, eager = pair
        graph = make_fx(lambda x: compiled(x))(X)
        names = [node.name for node in graph.graph.nodes]
        assert any("sin" in name or "relu" in name for name in names)
        torch.testing.assert_close(graph(X * 2), eager(X * 2))
        assert "make_fx" in reasons(compiled)[0]

    def test_fake_tensors(self, pair):
        compiled, _ = pair
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            result = compiled(mode.from_tensor(X))
        assert type(result).__name__ == "FakeTensor"
        assert result.shape == X.shape

    def test_vmap(self, pair):
        compiled, eager = pair
        xs = torch.rand(4, 2, 3)
        torch.testing.assert_close(torch.func.vmap(compiled)(xs), torch.func.vmap(eager)(xs))
        assert "torch.func" in reasons(compiled)[0]

    def test_grad_and_jvp(self, pair):
        compiled, eager = pair
        for transform in (
            lambda f: torch.func.grad(lambda x: f(x).sum())(X),
            lambda f: torch.func.jvp(f, (X,), (X + 1,))[1],
            lambda f: torch.func.vjp(f, X)[1](X)[0],
            lambda f: torch.func.jacrev(f)(X),
            lambda f: torch.func.jacfwd(f)(X),
            lambda f: torch.func.functionalize(f)(X),
            lambda f: torch.autograd.functional.jacobian(f, X),
            lambda f: torch.autograd.functional.jvp(f, X, X)[1],
        ):
            torch.testing.assert_close(transform(compiled), transform(eager))

    def test_forward_mode(self, pair):
        compiled, eager = pair
        forward = torch.autograd.forward_ad
        with forward.dual_level():
            dual = forward.make_dual(X, X + 1)
            actual, expected = (forward.unpack_dual(f(dual)) for f in (compiled, eager))
        torch.testing.assert_close(actual.primal, expected.primal)
        torch.testing.assert_close(actual.tangent, expected.tangent)
        assert "forward-mode" in reasons(compiled)[0]

    def test_jit_trace(self, pair):
        compiled, eager = pair
        traced = torch.jit.trace(compiled, (X,), check_trace=False)
        torch.testing.assert_close(traced(X * 2), eager(X * 2))
        kinds = {node.kind() for node in traced.graph.nodes()}
        assert kinds & {"aten::sin", "aten::relu"}
        assert "torch.jit.trace" in reasons(compiled)[0]

    def test_symbolic_trace(self, pair):
        compiled, eager = pair
        root = compiled if isinstance(compiled, nn.Module) else (lambda x: compiled(x))
        graph = torch.fx.symbolic_trace(root)
        torch.testing.assert_close(graph(X), eager(X))
        if isinstance(compiled, nn.Module):
            graph = torch.fx.symbolic_trace(nn.Sequential(compiled, nn.ReLU()))
            torch.testing.assert_close(graph(X), torch.relu(eager(X)))
            assert "0.fc" in {node.target for node in graph.graph.nodes}
        assert "proxy" in reasons(compiled)[0]

    def test_compile(self, pair):
        compiled, eager = pair
        outer = torch.compile(lambda x: compiled(x) * 3, backend="eager", fullgraph=True)
        torch.testing.assert_close(outer(X), eager(X) * 3)
        torch.testing.assert_close(outer(X + 1), eager(X + 1) * 3)
        torch._dynamo.reset()

    def test_another_jit(self, pair):
        compiled, eager = pair
        outer = fulgurite.jit(lambda x: compiled(x) * 3, executors=["aten"])
        for x in (X, X + 1):
            torch.testing.assert_close(outer(x), eager(x) * 3, rtol=0, atol=0)
        names = [s.name for s in fulgurite.last_traces(outer)[0].bound_symbols]
        assert {"aten::sin", "aten::relu"} & set(names)
        assert not reasons(compiled)

    def test_a_function_mode(self, pair):
        compiled, eager = pair

        class Counting(torch.overrides.TorchFunctionMode):
            calls = 0

            def __torch_function__(self, function, types, args=(), kwargs=None):
                Counting.calls += 1
                return function(*args, **(kwargs or {}))

        with Counting():
            expected = eager(X)
            once = Counting.calls
            actual = compiled(X)
        torch.testing.assert_close(actual, expected)
        assert Counting.calls == 2 * once
        assert "function mode" in reasons(compiled)[0]

    def test_afterwards_it_is_compiled(self, pair):
        compiled, eager = pair
        torch.func.vmap(compiled)(torch.rand(4, 2, 3))
        for _ in range(2):
            torch.testing.assert_close(compiled(X), eager(X))
        assert fulgurite.cache_hits(compiled) >= 1
        assert len(reasons(compiled)) == 1


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict):
    net = Net()
    program = torch.export.export(fulgurite.jit(net), (X,), strict=strict)
    torch.testing.assert_close(program.module()(X), net(X))
    assert sorted(program.state_dict) == ["fc.bias", "fc.weight"]


def test_compile_of_a_compiled_module():
    net = Net()
    outer = torch.compile(fulgurite.jit(net), backend="eager")
    torch.testing.assert_close(outer(X), net(X))
    torch._dynamo.reset()


def test_compile_of_a_method():
    class Scaler:
        by = 2

        @fulgurite.jit
        def scale(self, x):
            return x * self.by

    scaler = Scaler()
    outer = torch.compile(lambda x: scaler.scale(x) + 1, backend="eager", fullgraph=True)
    torch.testing.assert_close(outer(X), X * 2 + 1)
    torch._dynamo.reset()


def test_transforms_inside_of_a_compiled_function():
    program = lambda x: (
        torch.func.vmap(double_sine)(x) + torch.func.grad(lambda y: double_sine(y).sum())(x)
    )
    compiled = fulgurite.jit(program, fallback="eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(X), program(X))


def factories(x):
    return torch.zeros(2), torch.arange(3), torch.empty_like(x), x + 1


class TestDefaultDevice:
    def test_it_is_captured_and_guarded(self):
        compiled = fulgurite.jit(factories)
        for _ in range(2):
            for device in ("meta", "cpu"):
                with torch.device(device):
                    results = compiled(X)
                expected = [device, device, "cpu", "cpu"]
                assert [r.device.type for r in results] == expected
            assert [r.device.type for r in compiled(X)] == ["cpu"] * 4
        assert fulgurite.cache_misses(compiled) == 3
        assert fulgurite.cache_hits(compiled) == 3
        assert not reasons(compiled)

    def test_the_reason_is_told(self):
        compiled = fulgurite.jit(factories)
        compiled(X)
        with torch.device("meta"):
            compiled(X)
        assert "default device" in fulgurite.last_recompile_reason(compiled)

    def test_set_default_device(self):
        compiled = fulgurite.jit(factories)
        torch.set_default_device("meta")
        try:
            for _ in range(2):
                assert compiled(X)[0].device.type == "meta"
        finally:
            torch.set_default_device(None)
        assert compiled(X)[0].device.type == "cpu"
        assert fulgurite.cache_hits(compiled) == 1

    def test_inside_of_the_function(self):
        def program(x):
            with torch.device("meta"):
                a = torch.zeros(2)
            return a, torch.zeros(2) + x[0, 0]

        compiled = fulgurite.jit(program, fallback="eager")
        for _ in range(2):
            assert [r.device.type for r in compiled(X)] == ["meta", "cpu"]

    def test_modules_and_gradients(self):
        net = Net()
        compiled = fulgurite.jit(net)
        with torch.device("cpu"):
            for _ in range(2):
                torch.testing.assert_close(compiled(X), net(X))
        assert fulgurite.cache_hits(compiled) == 1
