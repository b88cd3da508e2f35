"""The options `executors` and `transforms`, and what a transform can do with a trace."""

import pickle

import pytest
import torch

import fulgurite
from fulgurite import Transform

F = torch.nn.functional
BIT_FOR_BIT = {"executors": ["aten"]}


def names(trace):
    return [symbol.name for symbol in trace.bound_symbols]


def program(x):
    return F.gelu(x) + F.gelu(x * 2)


def tanh_gelu(trace):
    def rule(call, *args):
        if call.name == "aten::gelu":
            return F.gelu(args[0], approximate="tanh")
        return NotImplemented

    return trace.rewrite(rule)


def tanh_program(x):
    return F.gelu(x, approximate="tanh") + F.gelu(x * 2, approximate="tanh")


def test_executors_by_name_and_by_object():
    x = torch.randn(3)
    aten = fulgurite.get_executor("aten")
    assert aten in fulgurite.get_all_executors()
    for given in (["aten"], [aten], ("aten",)):
        compiled = fulgurite.jit(program, executors=given)
        assert torch.equal(compiled(x), program(x))
        assert all(s.executor == "aten" for s in fulgurite.last_traces(compiled)[-1].bound_symbols)
        assert (
            "# executor: aten" in fulgurite.last_traces(compiled)["Transform for execution"].text()
        )
    assert pickle.loads(pickle.dumps(aten)).name == "aten"


def test_the_default_is_all_executors():
    x = torch.randn(3)
    with torch.no_grad():
        for options in ({}, {"executors": []}, {"executors": ["fused_cpu", "aten"]}):
            compiled = fulgurite.jit(program, **options)
            torch.testing.assert_close(compiled(x), program(x))
            symbols = fulgurite.last_traces(compiled)[-1].bound_symbols
            assert [s.executor for s in symbols] == ["fused_cpu"]


def test_an_unknown_executor_is_refused_by_name():
    with pytest.raises(fulgurite.UserError, match="no executor 'atem'.*did you mean 'aten'"):
        fulgurite.jit(program, executors=["atem"])
    with pytest.raises(fulgurite.UserError, match="executors"):
        fulgurite.jit(program, executors=[3])
    with pytest.raises(fulgurite.UserError, match="is a list"):
        fulgurite.jit(program, executors="aten")


@pytest.mark.parametrize("grad", [False, True])
def test_a_transform_changes_what_runs(grad):
    x = torch.randn(3, requires_grad=grad)
    compiled = fulgurite.jit(program, transforms=[tanh_gelu], **BIT_FOR_BIT)
    for _ in range(2):
        assert torch.equal(compiled(x), tanh_program(x))
    if grad:
        gradients = [torch.autograd.grad(f(x).sum(), x)[0] for f in (compiled, tanh_program)]
        assert torch.equal(*gradients)
    series = fulgurite.last_traces(compiled)
    assert series["tanh_gelu"].provenance == "tanh_gelu"
    assert 'approximate="tanh"' in series["tanh_gelu"].text()
    assert 'approximate="tanh"' in series[-1].text()
    assert 'approximate="tanh"' not in series[0].text()
    # The lines and the numbers of the program stay.
    assert "test_transforms.py" in series["tanh_gelu"].text()
    assert series["tanh_gelu"].outputs[0].number == series[0].outputs[0].number


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", fulgurite._C.pass_names())
def test_a_transform_can_be_anywhere(name, place, grad):
    transform = Transform(tanh_gelu, **{place: name}, name="mine")
    compiled = fulgurite.jit(program, transforms=[transform], verify=True, **BIT_FOR_BIT)
    x = torch.randn(3, requires_grad=grad)
    assert torch.equal(compiled(x), tanh_program(x))
    order = [trace.provenance for trace in fulgurite.last_traces(compiled)]
    assert "mine" in order
    if name in order:
        assert (order.index("mine") < order.index(name)) == (place == "before")
    last = fulgurite.last_traces(compiled)[-1]
    assert "# executor: aten" in last.text()
    if grad:
        for _ in range(2):
            gradients = [torch.autograd.grad(f(x).sum(), x)[0] for f in (compiled, tanh_program)]
            assert torch.allclose(*gradients)
        in_joint = name not in ("Transform for execution", "Delete Last Used")
        assert bool(fulgurite.last_backward_traces(compiled)) == in_joint


def test_transforms_run_on_every_compilation_in_their_order():
    seen = []

    def first(trace):
        seen.append("first")
        return trace

    def second(trace):
        seen.append("second")
        return trace

    compiled = fulgurite.jit(lambda x: x + 1, transforms=[first, second])
    for n in (2, 3, 2, 3):
        compiled(torch.ones(n))
    assert seen == ["first", "second"] * 2


def drop_the_first(trace):
    return trace.with_calls(trace.bound_symbols[1:])


def test_a_trace_that_is_not_well_formed_names_the_transform_and_the_line():
    compiled = fulgurite.jit(lambda x: (x * 2).relu(), transforms=[drop_the_first])
    with pytest.raises(fulgurite.UserError) as error:
        compiled(torch.ones(2))
    text = str(error.value)
    assert "drop_the_first" in text
    assert "used before it is made" in text
    assert "torch.relu(" in text
    # The user's own fault: not run eagerly.
    with pytest.raises(fulgurite.UserError, match="drop_the_first"):
        fulgurite.jit(lambda x: (x * 2).relu(), transforms=[drop_the_first], fallback="eager")(
            torch.ones(2)
        )


def test_what_a_transform_may_not_do():
    outside = torch.ones(2)

    def brings_in(trace):
        return trace.rewrite(lambda call, x, *rest: x * outside)

    def returns_nothing(trace):
        pass

    def raises(trace):
        raise ValueError("so it goes")

    def reads(trace):
        return trace.rewrite(lambda call, x, *rest: x if x.sum() > 0 else -x)

    def wrong_results(trace):
        return trace.rewrite(lambda call, *args: 3)

    for transform, kind, text in (
        (brings_in, fulgurite.UserError, "exists outside"),
        (returns_nothing, fulgurite.UserError, "returns_nothing returned a NoneType"),
        (raises, ValueError, "so it goes"),
        (reads, fulgurite.UserError, "reads"),
        (wrong_results, fulgurite.UserError, "returned a int"),
    ):
        with pytest.raises(kind, match=text) as error:
            fulgurite.jit(lambda x: x * 2, transforms=[transform])(torch.ones(2))
        notes = getattr(error.value, "__notes__", [])
        assert transform.__name__ in str(error.value) + "".join(notes)
    assert fulgurite.jit(lambda x: x * 2)(torch.ones(2)).sum() == 4


def test_bad_transforms_are_refused():
    for bad, text in (
        ([3], "function from trace to trace"),
        (tanh_gelu, "is a list"),
        ([tanh_gelu, tanh_gelu], "two transforms"),
    ):
        with pytest.raises(fulgurite.UserError, match=text):
            fulgurite.jit(program, transforms=bad)
    with pytest.raises(fulgurite.UserError, match="did you mean 'Dead Code Elimination'"):
        Transform(tanh_gelu, before="Dead Code Eliminaton")
    with pytest.raises(fulgurite.UserError, match="both"):
        Transform(tanh_gelu, before="Functionalise", after="Functionalise")
    with pytest.raises(fulgurite.UserError, match="as a pass"):
        Transform(tanh_gelu, name="Functionalise")


def test_an_edited_text_runs():
    def edit(trace):
        return fulgurite.with_text(trace, trace.text().replace("torch.mul", "torch.div"))

    compiled = fulgurite.jit(lambda x, y: {"a": x * y, "b": [x + y]}, transforms=[edit])
    x, y = torch.rand(3), torch.rand(3)
    assert torch.equal(compiled(x, y)["a"], x / y)
    assert torch.equal(compiled(x, y)["b"][0], x + y)


def identity(trace):
    return trace.rewrite(lambda call, *args: NotImplemented)


def writes(x, y):
    z = x + 1
    z[0] = 2.0
    z.t()[1:].mul_(3)
    y.add_(z)
    return y, z.t(), y[0]


def random(x):
    torch.manual_seed(3)
    return F.dropout(x, 0.5) + torch.rand(3, 3), torch.randn(2)


def under_autocast(x, y):
    with torch.autocast("cpu"):
        return (x @ y).float() + torch.tensor([1.0, 2.0, 3.0])


def no_grad_inside(x, y):
    with torch.no_grad():
        scale = (x * y).sum()
    return x / scale


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("each", [writes, random, under_autocast, no_grad_inside])
def test_a_rewriting_that_changes_nothing(each, grad):
    transforms = [
        Transform(identity, before="Functionalise", name="first"),
        Transform(identity, after="Functionalise", name="pure"),
        Transform(identity, after="Delete Last Used", name="last"),
    ]
    compiled = fulgurite.jit(each, transforms=transforms, verify=True, **BIT_FOR_BIT)
    count = each.__code__.co_argcount
    given = [[torch.rand(3, 3) for _ in range(count)] for _ in range(2)]
    for mine, eagers in zip(*[[[t.clone() for t in g] for g in given] for _ in "ab"], strict=True):
        with torch.set_grad_enabled(grad):
            torch.manual_seed(0)
            actual = compiled(*mine)
            torch.manual_seed(0)
            expected = each(*eagers)
        for a, b in zip([actual, *mine], [expected, *eagers], strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
    series = list(fulgurite.last_traces(compiled))
    for before, after in zip(series, series[1:], strict=False):
        if after.provenance in ("first", "pure", "last"):
            assert before.difference(after) == ""
            assert after.provenance == "pure" or before.epilogue == after.epilogue


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


def test_a_backward_of_its_own_is_not_lost():
    x = torch.rand(3, requires_grad=True)
    with pytest.raises(fulgurite.UserError, match="Doubled"):
        fulgurite.jit(lambda x: Doubled.apply(x) * 2, transforms=[identity])(x)


def test_calls_can_be_looked_at_and_made_again():
    def swap(trace):
        def rule(call, *args):
            if call.name == "aten::sub.Tensor":
                a, b, alpha = args
                return call.op(b, a, alpha=alpha)
            return NotImplemented

        return trace.rewrite(rule)

    x, y = torch.rand(3), torch.rand(3)
    assert torch.equal(fulgurite.jit(lambda x, y: x - y, transforms=[swap])(x, y), y - x)
