"""Executors of a user's own: what they may claim, and what is made of what they return."""

import pickle
import threading

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import fulgurite
from fulgurite import OperatorExecutor, UserError

F = torch.nn.functional


def softmax(x, dim, dtype=None):
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


def softmax_executor(function=softmax, **options):
    executor = OperatorExecutor("mine", **options)
    executor.register_implementation("aten::softmax.int", function)
    return executor


def program(x):
    return F.softmax(x * 2, -1).relu() + 1


def decisions(compiled, executor="mine"):
    said = fulgurite.compile_data(compiled).fusion_decisions
    return {
        d.call.partition(" = ")[2].partition("(")[0]: d.refusal
        for d in said
        if d.executor == executor
    }


def compiled_with(function, program=program, rest=("fused_cpu", "aten"), **options):
    return fulgurite.jit(program, executors=[softmax_executor(function, **options), *rest])


@pytest.mark.parametrize("rest", [("aten",), ("fused_cpu", "aten")])
def test_an_implementation_runs_and_shows(rest):
    seen = []

    def mine(x, dim, dtype=None):
        seen.append((tuple(x.shape), dim, dtype))
        return softmax(x, dim)

    x = torch.randn(3, 5)
    compiled = compiled_with(mine, rest=rest)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x), program(x))
    assert seen == [((3, 5), -1, None)] * 2
    trace = fulgurite.last_traces(compiled)[-1]
    assert "def mine0(t1):  # executor: mine" in trace.text()
    assert "mine0(" in trace.text().partition("def computation")[2]
    assert "mine" in {symbol.executor for symbol in trace.bound_symbols}
    # The text alone is the whole program.
    scope = {}
    exec(trace.text(), scope)
    torch.testing.assert_close(scope["computation"](x), program(x))
    torch.testing.assert_close(trace.replay([x])[0], program(x))
    assert len(seen) == 2
    said = decisions(compiled)
    assert said["torch.softmax"] == ""
    assert said["torch.relu"] == "it has no implementation of aten::relu"


def test_claims_and_lower():
    def claims(call):
        if call.name != "aten::mul.Tensor":
            return "only products"
        return tuple(call.outputs[0].shape) == (4,)

    def lower(call):
        other = call.arguments["other"]
        if isinstance(other, fulgurite.TraceValue):
            return lambda a, b: b * a
        return lambda a: a * other

    executor = OperatorExecutor("products", claims, lower)
    compiled = fulgurite.jit(
        lambda x, y: (x * y * x * x, (x + y) * 3, y[:2] * 2), executors=[executor, "aten"]
    )
    x, y = torch.randn(4), torch.randn(4)
    a, b, c = compiled(x, y)
    torch.testing.assert_close((a, b, c), (x * y * x * x, (x + y) * 3, y[:2] * 2))
    symbols = fulgurite.last_traces(compiled)[-1].bound_symbols
    assert sum(s.executor == "products" for s in symbols) == 4
    said = fulgurite.compile_data(compiled).fusion_decisions
    assert {d.refusal for d in said} >= {"only products", "it does not claim it", ""}


@pytest.mark.parametrize(
    "bad, text",
    [
        (
            lambda x, dim, dtype: x[:1] * 1,
            r'result 0 is "cpu f32\[1, 5\]", expected "cpu f32\[3, 5\]"',
        ),
        (lambda x, dim, dtype: x.double() * 1, 'result 0 is "cpu f64'),
        (lambda x, dim, dtype: (x.t() * 1).contiguous().t(), "strides"),
        (lambda x, dim, dtype: torch.empty(3, 5, device="meta"), "meta"),
        (lambda x, dim, dtype: x, "shares memory with argument 0"),
        (lambda x, dim, dtype: x.view(3, 5), "shares memory with argument 0"),
        (lambda x, dim, dtype: x.mul_(2) * 1, "it wrote to argument 0"),
        (lambda x, dim, dtype: (x * 1, x * 2), "2 tensors, expected 1"),
        (lambda x, dim, dtype: None, "returned a NoneType"),
        (lambda x, dim, dtype: [3], "returned a int"),
        (lambda x, dim, dtype: (x * 1).to_sparse(), "no plain strided tensor"),
        (lambda x: x * 1, "TypeError"),
        (lambda x, dim, dtype: 1 // 0, "ZeroDivisionError: integer division"),
    ],
)
@pytest.mark.parametrize("fallback", ["error", "eager"])
def test_a_wrong_result_is_an_error(bad, text, fallback):
    compiled = fulgurite.jit(
        lambda x: F.softmax(x + 0, -1), executors=[softmax_executor(bad), "aten"], fallback=fallback
    )
    for _ in range(2):
        with torch.no_grad(), pytest.raises(UserError, match=text) as error:
            compiled(torch.randn(3, 5))
        assert "the executor mine" in str(error.value)
        assert "torch.softmax(" in str(error.value)


def test_the_cause_of_an_error_is_kept():
    def fails(x, dim, dtype=None):
        raise KeyError("so it goes")

    with torch.no_grad(), pytest.raises(UserError) as error:
        compiled_with(fails)(torch.randn(3))
    assert isinstance(error.value.__cause__, KeyError)
    assert error.value.__cause__.__traceback__ is not None

    def stops(x, dim, dtype=None):
        raise KeyboardInterrupt

    with torch.no_grad(), pytest.raises(KeyboardInterrupt):
        compiled_with(stops)(torch.randn(3))


@pytest.mark.parametrize("form", ["itself", "view", "part"])
def test_memory_that_the_function_keeps_is_copied(form):
    kept = torch.zeros(6)

    def same_buffer(x, dim, dtype=None):
        kept[:3] = softmax(x, dim)
        if form == "itself":
            return kept.resize_(3)
        return kept[:3] if form == "part" else kept.view(2, 3)[0]

    compiled = fulgurite.jit(
        lambda x: F.softmax(x, -1), executors=[softmax_executor(same_buffer), "aten"]
    )
    x, y = torch.randn(3), torch.randn(3)
    with torch.no_grad():
        a, b = compiled(x), compiled(y)
        torch.testing.assert_close(a, F.softmax(x, -1))
        torch.testing.assert_close(b, F.softmax(y, -1))
        a.fill_(7)
        torch.testing.assert_close(kept[:3], F.softmax(y, -1))


def test_kept_memory_with_recomputed_gradients():
    kept = torch.zeros(3)

    def same_buffer(x, dim, dtype=None):
        return kept.copy_(softmax(x, dim))

    executor = softmax_executor(same_buffer, gradient="recompute")
    compiled = fulgurite.jit(lambda x: F.softmax(x, -1), executors=[executor, "aten"])
    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    a, b = compiled(x), compiled(y)
    torch.testing.assert_close(a, F.softmax(x, -1))
    torch.testing.assert_close(b, F.softmax(y, -1))
    expected = torch.autograd.grad(F.softmax(x, -1).square().sum(), x)
    torch.testing.assert_close(torch.autograd.grad(a.square().sum(), x), expected)
    assert not kept.requires_grad


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("form", ["itself", "view", "list"])
def test_new_memory_is_not_copied(form, mode):
    addresses = []

    def new(x, dim, dtype=None):
        made = softmax(x, dim)
        addresses.append(made.data_ptr())
        return {"itself": made, "view": made.reshape(15).view(3, 5), "list": [made]}[form]

    compiled = fulgurite.jit(lambda x: F.softmax(x, -1), executors=[softmax_executor(new), "aten"])
    with mode():
        assert compiled(torch.randn(3, 5)).data_ptr() == addresses[0]


def test_writes_and_views_are_not_claimed():
    def everything(call):
        return True

    def lower(call):
        return lambda *tensors: call(*tensors, *call.args[len(tensors) :])

    def writes(x, y):
        y.add_(x)
        return y.t(), x.relu()

    x, y = torch.randn(2, 3), torch.randn(2, 3)
    for grad in (False, True):
        a, b = y.clone(), y.clone()
        with torch.set_grad_enabled(grad):
            compiled = fulgurite.jit(
                writes, executors=[OperatorExecutor("all", everything, lower), "aten"]
            )
            torch.testing.assert_close(compiled(x, a), writes(x, b))
        torch.testing.assert_close(a, b)
        said = decisions(compiled, "all")
        assert said["torch.relu"] == ""
        assert any("writes to tensors" in reason for reason in said.values())
        assert any("share memory" in reason for reason in said.values())


@pytest.mark.parametrize("gradient", [None, "recompute", "own"])
def test_gradients(gradient):
    ran = []

    def mine(x, dim, dtype=None):
        ran.append(True)
        return softmax(x, dim)

    x = torch.randn(3, 5, requires_grad=True)
    compiled = compiled_with(mine, gradient=gradient)
    result = compiled(x)
    torch.testing.assert_close(result, program(x))
    gradients = [torch.autograd.grad(f(x).square().sum(), x)[0] for f in (compiled, program)]
    torch.testing.assert_close(*gradients)
    said = decisions(compiled)
    assert bool(ran) == (gradient is not None)
    if gradient is None:
        assert "gradients are needed" in said["torch.softmax"]
    # Where nothing needs them, the same executor runs it in grad mode.
    compiled(x.detach())
    assert ran


def test_own_gradients_that_are_none_are_an_error():
    def detached(x, dim, dtype=None):
        return softmax(x.detach(), dim)

    compiled = compiled_with(detached, gradient="own")
    with pytest.raises(UserError, match='expected "cpu f32.*grad'):
        compiled(torch.randn(3, 5, requires_grad=True))


def test_recomputed_gradients_of_several_arguments():
    def linear(x, weight, bias=None):
        return F.linear(x, weight) if bias is None else F.linear(x, weight) + bias

    executor = OperatorExecutor("mine", gradient="recompute")
    executor.register_implementation(torch.ops.aten.linear, linear)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2, bias=False))
    x = torch.randn(5, 3)
    compiled = fulgurite.jit(module, executors=[executor, "aten"])
    compiled(x).sum().backward()
    mine = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(x).sum().backward()
    torch.testing.assert_close(mine, [p.grad for p in module.parameters()])
    x.requires_grad_()
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g = torch.autograd.grad(compiled(x).square().sum(), x, create_graph=True)[0]
        g.sum().backward()


def test_other_modes_and_checkpoints():
    module = torch.nn.Linear(5, 5)
    executor = OperatorExecutor("mine", gradient="recompute")
    executor.register_implementation(
        "aten::linear", lambda x, weight, bias: F.linear(x, weight) + bias
    )
    compiled = fulgurite.jit(module, executors=[executor, "aten"])
    x, gradients = torch.randn(3, 5), []
    for call in (compiled, module):
        with torch.inference_mode():
            torch.testing.assert_close(call(x), module(x))
        module.zero_grad()
        checkpoint(call, x, use_reentrant=False).square().sum().backward()
        with torch.autocast("cpu"):
            call(x).float().square().sum().backward()
        gradients.append(module.weight.grad.clone())
    torch.testing.assert_close(*gradients, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_pass_leaves_regions_as_they_are(place):
    def half(trace):
        def rule(call, *args):
            return args[0] * 0.5 if call.name == "aten::matmul" else NotImplemented

        return trace.rewrite(rule)

    x = torch.randn(5, 5)
    transform = fulgurite.Transform(half, **{place: "Delete Last Used"})
    with torch.no_grad():
        compiled = fulgurite.jit(
            lambda x: program(x @ x),
            executors=[softmax_executor(), "fused_cpu", "aten"],
            transforms=[transform],
            verify=True,
        )
        for _ in range(2):
            torch.testing.assert_close(compiled(x), program(x * 0.5))
    last = fulgurite.last_traces(compiled)[-1]
    assert [call.name for call in last.bound_symbols[1:]] == ["fusion0", "mine0", "fusion1"]
    assert [call.executor for call in last.bound_symbols[1:]] == ["fused_cpu", "mine", "fused_cpu"]


def test_random_draws_of_a_claimed_call_keep_the_order():
    executor = OperatorExecutor("mine")
    executor.register_implementation("aten::dropout", torch.dropout)

    def draws(x):
        return F.dropout(x) + torch.rand(3) + F.dropout(x)

    x = torch.randn(3)
    compiled = fulgurite.jit(draws, executors=[executor, "fused_cpu", "aten"])
    with torch.no_grad():
        for seed in (0, 1):
            torch.manual_seed(seed)
            actual = compiled(x)
            torch.manual_seed(seed)
            torch.testing.assert_close(actual, draws(x))


def test_lists_and_several_results():
    executor = OperatorExecutor("mine")
    executor.register_implementation(
        "aten::cat", lambda tensors, dim: torch.cat(list(tensors), dim)
    )
    executor.register_implementation("aten::topk", torch.topk)
    executor.register_implementation("aten::unbind.int", lambda x, dim: x.unbind(dim))

    def lists(x, y):
        values, places = torch.topk(torch.cat([x, y, x]), 2)
        return values, places, x.unbind(0)

    x, y = torch.randn(3, 4), torch.randn(2, 4)
    compiled = fulgurite.jit(lists, executors=[executor, "aten"])
    torch.testing.assert_close(compiled(x, y), lists(x, y))
    said = decisions(compiled)
    assert said["torch.cat"] == said["torch.topk"] == ""
    assert "share memory" in said["torch.unbind"]


def always(call):
    return call.name == "aten::relu"


def lower_relu(call):
    return torch.relu


def test_pickles_and_names():
    executor = OperatorExecutor("temporary", always, lower_relu)
    copy = pickle.loads(pickle.dumps(executor))
    x = torch.randn(3)
    for each in (executor, copy):
        compiled = fulgurite.jit(torch.relu, executors=[each, "aten"])
        assert torch.equal(compiled(x), torch.relu(x))
        assert fulgurite.last_traces(compiled)[-1].bound_symbols[0].executor == "temporary"
    with pytest.raises(UserError, match="no executor 'temporary'"):
        fulgurite.jit(torch.relu, executors=["temporary"])
    try:
        assert fulgurite.register_executor(executor) is executor
        fulgurite.register_executor(executor)
        assert fulgurite.get_executor("temporary") is executor
        assert pickle.loads(pickle.dumps(executor)) is executor
        compiled = fulgurite.jit(torch.relu, executors=["temporary", "aten"])
        compiled(x)
        assert fulgurite.last_traces(compiled)[-1].bound_symbols[0].executor == "temporary"
        with pytest.raises(UserError, match="already"):
            fulgurite.register_executor(copy)
    finally:
        fulgurite.deregister_executor("temporary")
    with pytest.raises(UserError, match="fulgurite's own"):
        fulgurite.deregister_executor("aten")


def test_bad_executors_are_refused():
    for make, text in (
        (lambda: OperatorExecutor("not a name"), "identifier"),
        (lambda: OperatorExecutor("mine", claims=always), "both"),
        (lambda: OperatorExecutor("mine", 3, 4), "claims of the executor mine"),
        (lambda: OperatorExecutor("mine", gradient="none"), "gradient"),
        (lambda: OperatorExecutor("mine").register_implementation("softmax", softmax), "named as"),
        (
            lambda: OperatorExecutor("mine").register_implementation(torch.ops.aten.add, softmax),
            "several",
        ),
        (lambda: fulgurite.register_executor(3), "takes an executor"),
    ):
        with pytest.raises(UserError, match=text):
            make()

    def raises(call):
        raise ValueError("so it goes")

    for claims, lower, text in (
        (
            raises,
            lower_relu,
            "mine raised ValueError when it was asked for .*torch.relu.*so it goes",
        ),
        (lambda call: None, lower_relu, "said None of"),
        (lambda call: "", lower_relu, "said '' of"),
        (always, raises, "mine raised ValueError when it was to lower"),
        (always, lambda call: None, "lowered .* to None"),
    ):
        compiled = fulgurite.jit(
            torch.relu, executors=[OperatorExecutor("mine", claims, lower), "aten"]
        )
        with pytest.raises(UserError, match=text):
            compiled(torch.randn(3))


def test_calls_that_were_seen_stay_readable():
    seen = []

    def claims(call):
        seen.append(call)
        return "no"

    def chain(x):
        for _ in range(50):
            x = torch.relu(x) * 2
        return x

    fulgurite.jit(chain, executors=[OperatorExecutor("looks", claims, lower_relu), "aten"])(
        torch.ones(2)
    )
    assert len(seen) == 100
    assert all("torch." in repr(call) and call.outputs[0].shape == (2,) for call in seen)
    assert any(call.source[0].endswith("test_operator_executor.py") for call in seen)


def test_threads():
    compiled = compiled_with(softmax)
    x = torch.randn(64, 64)
    expected, wrong = program(x), []

    def work():
        with torch.no_grad():
            for _ in range(50):
                if not torch.allclose(compiled(x), expected):
                    wrong.append(True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_bisect_finds_it():
    compiled = compiled_with(lambda x, dim, dtype: softmax(x, dim) * 1.5)
    x = torch.randn(3, 5)
    with torch.no_grad():
        found = fulgurite.examine.bisect(compiled, x)
        assert found.claimed == "mine0"
        assert (
            "mine0, which an executor of your own runs, differs from t2 = torch.softmax("
            in repr(found)
        )
        right = fulgurite.examine.bisect(compiled_with(softmax), x)
    assert right.difference is None and "mine0" in right.compared


def test_it_is_no_fusion():
    compiled = compiled_with(softmax)
    x = torch.randn(3, 5)
    with torch.no_grad():
        compiled(x)
    trace = fulgurite.last_traces(compiled)[-1]
    assert all("mine" not in name for name, _ in fulgurite.examine.get_fusions(trace))
