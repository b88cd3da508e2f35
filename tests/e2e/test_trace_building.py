"""Walking and building traces from Python, and rules that go wrong."""

import pytest
import torch

import fulgurite
from fulgurite import UserError

F = torch.nn.functional


def program(x, w):
    return F.softmax(x @ w * 0.5, -1)


X, W = torch.randn(3, 4), torch.randn(4, 5)


def traced(function=program, *args):
    compiled = fulgurite.jit(function, executors=["aten"])
    compiled(*(args or (X, W)))
    return fulgurite.last_traces(compiled)[0]


def run_with(transform, function=program, *args):
    compiled = fulgurite.jit(function, transforms=[transform], executors=["aten"], verify=True)
    return compiled(*(args or (X, W)))


def test_a_call_says_what_it_is():
    trace = traced()
    matmul, mul, softmax = trace.bound_symbols
    assert mul.arguments["other"] == 0.5 and mul.arguments["self"] == matmul.outputs[0]
    assert softmax.arguments == {"self": mul.outputs[0], "dim": -1, "dtype": None}
    assert softmax.op is torch.ops.aten.softmax.int
    assert [c.has_effect or c.draws or bool(c.writes) for c in trace.bound_symbols] == [False] * 3
    assert mul.source[0].endswith("test_trace_building.py")
    effects = traced(lambda x, w: F.dropout(x.add_(1)).t_(), X.clone(), W).bound_symbols
    assert [c.draws for c in effects] == [False, True, False]
    assert [[v.name for v in c.writes] for c in effects] == [["x"], [], ["t3"]]
    assert all(c.has_effect for c in effects)


def test_calls_are_inserted_removed_and_replaced():
    def rule(call, *args):
        if call.name == "aten::mul.Tensor":
            return args[0]
        if call.name == "aten::softmax.int":
            return call(torch.relu(args[0]), *args[1:]) + 1
        return NotImplemented

    built = traced().rewrite(rule)
    names = [call.name for call in built.bound_symbols]
    assert names == ["aten::matmul", "aten::relu", "aten::softmax.int", "aten::add.Tensor"]
    built.verify()
    expected = F.softmax((X @ W).relu(), -1) + 1
    torch.testing.assert_close(built.replay([X, W])[0], expected)
    torch.testing.assert_close(run_with(lambda trace: trace.rewrite(rule)), expected)


def test_a_call_is_called_with_keywords_where_its_schema_has_them():
    def program(x, w):
        return F.scaled_dot_product_attention(x[None], x[None], x[None], scale=0.3)

    result = run_with(lambda t: t.rewrite(lambda call, *args: call(*args)), program)
    torch.testing.assert_close(result, program(X, W))
    call = traced(program).bound_symbols[-1]
    with pytest.raises(UserError, match=r"takes 8 arguments.*got 1"):
        call(X)


def test_values_made_before_can_be_replaced():
    def rule(call, *args):
        if call.name != "aten::softmax.int":
            return NotImplemented
        mul = call.arguments["self"]
        return {mul: args[0] + 1, call.outputs[0]: args[0] * 2}

    def program(x, w):
        y = x @ w * 0.5
        return F.softmax(y, -1), y.relu()

    result = run_with(lambda trace: trace.rewrite(rule), program)
    y = X @ W * 0.5
    torch.testing.assert_close(result, (y * 2, (y + 1).relu()))


def test_a_part_is_a_program():
    trace = traced()
    _, mul, softmax = trace.bound_symbols
    part = trace.part([mul, softmax], mul.args[:1], softmax.outputs)
    torch.testing.assert_close(part.replay([X])[0], F.softmax(X * 0.5, -1))
    assert "def part(" in part.text()
    with pytest.raises(UserError, match="no program of their own.*used before it is made"):
        trace.part([softmax], [], softmax.outputs)
    with pytest.raises(UserError, match="of the trace itself"):
        trace.part(traced().bound_symbols, trace.inputs, trace.outputs)


def first_only(make):
    """A rule for the first call alone."""

    def rule(call, *args):
        return make(call, *args) if call.name == "aten::matmul" else NotImplemented

    return rule


@pytest.mark.parametrize(
    "make, text",
    [
        (
            lambda call, *args: args[0][:2],
            r"in t\d = torch.add\(.*runs again on what the rule gave",
        ),
        (lambda call, *args: None, "returned a NoneType"),
        (lambda call, *args: [args[0], args[0]], "returned a list"),
        (lambda call, *args: {}, "no tensor for t"),
        (lambda call, *args: {"t2": args[0]}, "keys are values of the trace"),
        (lambda call, *args: {call.outputs[0]: 3}, "returned a int"),
        (lambda call, *args: torch.ones(3, 5), ""),
        (lambda call, *args: torch.mm(X, W), "exists outside"),
    ],
)
def test_rules_that_go_wrong(make, text):
    def program(x, w):
        return F.softmax(x @ w + torch.ones(3, 5), -1)

    transform = lambda trace: trace.rewrite(first_only(make))  # noqa: E731
    if not text:
        torch.testing.assert_close(run_with(transform, program), program(X * 0 + 0.25, W * 0 + 1))
        return
    with pytest.raises(UserError, match=text) as error:
        run_with(transform, program)
    assert "<lambda>" in str(error.value) + "".join(getattr(error.value, "__notes__", []))


def test_a_new_program_that_fails_is_not_replaced_by_the_old_one():
    def rule(call, *args):
        if call.name == "aten::matmul":
            return call(*args).to(torch.complex64)
        return NotImplemented

    for fallback in ("error", "eager"):
        compiled = fulgurite.jit(
            program, transforms=[lambda t: t.rewrite(rule)], executors=["aten"], fallback=fallback
        )
        for _ in range(2):
            with pytest.raises((RuntimeError, NotImplementedError), match="softmax"):
                compiled(X, W)


def test_an_exception_of_a_rule_says_which_call():
    def rule(call, *args):
        raise ValueError("so it goes")

    with pytest.raises(ValueError, match="so it goes") as error:
        run_with(lambda trace: trace.rewrite(rule))
    assert any("torch.matmul(x, w)" in note for note in error.value.__notes__)


def test_thousands_of_calls():
    def deep(x):
        for _ in range(1000):
            x = torch.relu(x) + 1
        return x

    trace = traced(deep, torch.ones(2))
    assert sum(call.arguments["self"].shape == (2,) for call in trace.bound_symbols) == 2000
    built = trace.rewrite(lambda call, *args: NotImplemented)
    assert trace.difference(built) == ""
