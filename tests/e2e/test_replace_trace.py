"""Programs that a user puts in place of the ones that a compiled function runs."""

import pytest
import torch

import fulgurite

ATEN, FUSED = {"executors": ["aten"]}, {"executors": ["fused_cpu", "aten"]}


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.rows = None

    def forward(self, x):
        self.rows = x.shape[0]
        return torch.nn.functional.gelu(self.fc(x)) * 2


def program(x, y):
    return (x * y + 1).relu(), {"sum": x.sum(0)}


def last_text(compiled, place=-1):
    return fulgurite.last_traces(compiled)[place].text()


@pytest.mark.parametrize("place", [0, -1], ids=["captured", "executed"])
@pytest.mark.parametrize("options", [ATEN, FUSED], ids=["aten", "fused"])
def test_edited_text_runs(options, place):
    x, y = torch.randn(4, 5), torch.randn(4, 5)
    compiled = fulgurite.jit(program, **options)
    compiled(x, y)
    fulgurite.replace_trace(compiled, last_text(compiled, place).replace("relu", "sigmoid"))
    result = compiled(x, y)
    torch.testing.assert_close(result[0], (x * y + 1).sigmoid())
    torch.testing.assert_close(result[1]["sum"], x.sum(0))
    assert fulgurite.cache_misses(compiled) == 1
    assert "sigmoid" in last_text(compiled) and "relu" not in last_text(compiled)
    assert "sigmoid" in fulgurite.last_traces(compiled)["Replaced"].text()
    assert ("def fusion0" in last_text(compiled)) == (options is FUSED)
    decisions = fulgurite.compile_data(compiled).fusion_decisions
    assert any("sigmoid" in decision.call for decision in decisions)
    fulgurite.restore_trace(compiled)
    torch.testing.assert_close(compiled(x, y)[0], (x * y + 1).relu())
    assert "relu" in last_text(compiled) and "Replaced" not in last_text(compiled, 0)
    fulgurite.restore_trace(compiled)  # where there is nothing to do


def test_a_trace_runs():
    x, y = torch.randn(4, 5), torch.randn(4, 5)
    compiled = fulgurite.jit(program, **FUSED)
    compiled(x, y)

    def rule(call, *args):
        return torch.tanh(args[0]) if call.name == "aten::relu" else NotImplemented

    fulgurite.replace_trace(compiled, fulgurite.last_traces(compiled)[0].rewrite(rule))
    torch.testing.assert_close(compiled(x, y)[0], (x * y + 1).tanh())


def test_guards_and_effects_stay():
    module = Scaled()
    compiled, x = fulgurite.jit(module, **FUSED), torch.randn(2, 3)
    with torch.no_grad():
        compiled(x)
        fulgurite.replace_trace(compiled, last_text(compiled).replace(", 2)", ", 4)"))
        torch.testing.assert_close(compiled(x), torch.nn.functional.gelu(module.fc(x)) * 4)
        assert module.rows == 2
        wide = torch.randn(5, 3)  # another entry, which is the program as it is
        torch.testing.assert_close(compiled(wide), torch.nn.functional.gelu(module.fc(wide)) * 2)
        torch.testing.assert_close(compiled(x), torch.nn.functional.gelu(module.fc(x)) * 4)
        module.fc.weight = torch.nn.Parameter(torch.ones(3, 3, dtype=torch.float64))
        with pytest.raises(RuntimeError):
            compiled(x)
    prologue = fulgurite.last_prologue_traces(compiled)[0].text()
    assert "p_fc_weight" in prologue


def test_one_entry_of_several_is_chosen():
    compiled = fulgurite.jit(program)
    small, large = torch.ones(2), torch.ones(3)
    compiled(small, small), compiled(large, large)
    first = fulgurite.compile_data(compiled).entries[-1]
    text = first.traces[-1].text().replace("relu", "neg")
    fulgurite.replace_trace(compiled, text, entry=first)
    assert compiled(small, small)[0].tolist() == [-2, -2]
    assert compiled(large, large)[0].tolist() == [2, 2, 2]
    fulgurite.restore_trace(compiled, entry=first)
    assert compiled(small, small)[0].tolist() == [2, 2]
    with pytest.raises(fulgurite.UserError, match="none of compile_data"):
        fulgurite.replace_trace(compiled, text, entry="first")


def test_gradients_flow_through_an_edited_program():
    x = torch.randn(4, requires_grad=True)
    compiled = fulgurite.jit(lambda x: (x * 3).exp())
    compiled(x)
    with pytest.raises(fulgurite.UserError, match="one half of the program.*last_traces.*\\[0\\]"):
        fulgurite.replace_trace(compiled, last_text(compiled).replace(", 3)", ", 2)"))
    fulgurite.replace_trace(compiled, last_text(compiled, 0).replace(", 3)", ", 2)"))
    (gradient,) = torch.autograd.grad(compiled(x).sum(), x)
    torch.testing.assert_close(gradient, 2 * (2 * x).exp())


def test_writes_are_part_of_the_program():
    def write(x):
        x.mul_(2)
        return x + 1

    compiled, x = fulgurite.jit(write, **FUSED), torch.ones(3)
    compiled(x)
    fulgurite.replace_trace(compiled, last_text(compiled, 0).replace("x.mul_(2)", "x.mul_(5)"))
    result = compiled(x)
    assert x.tolist() == [10, 10, 10] and result.tolist() == [11, 11, 11]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("relu(", "relu((", "the text is no Python: .*\n  in line"),
        ("torch.relu(t3)", "torch.relu(x3)", r"raised NameError.*\n  in line \d+: t4 = torch.relu"),
        ("torch.relu(t3)", "torch.mm(t3, t3)", r"raised RuntimeError.*\n  in line \d+: t4 = "),
        ("def computation(x, y)", "def computation(x)", "raised TypeError"),
        ("def computation", "def calculation", "defines no function 'computation'"),
        ("torch.relu(t3)", "torch.relu(t3).double()", "output 0 .* the dtype differs"),
        ("torch.relu(t3)", "torch.relu(t3)[1:]", "output 0 .* the shape"),
        ("torch.relu(t3)", "torch.relu(t3).item()", "data|item"),
        ("torch.relu(t3)", "outside", "raised NameError"),
        ("torch.relu(t3)", "torch.nowhere(t3)", r"no attribute 'nowhere'\n  in line \d+: t4 = "),
        (
            "torch.relu(t3)",
            "t3 if t3.sum() > 0 else t2",
            r"needs the data .*\n.*\n  in line \d+: t4",
        ),
        ("return t4, {", "return {", "returns 1 tensors, and the trace returned 2"),
        ("return t4, {", "return t4, t3, {", "returns 3 tensors, and the trace returned 2"),
        ("return t4, {", "{", "returns 0 tensors, and the trace returned 2"),
        ("torch.relu(t3)", "torch.as_strided(x, (4, 5), (5, 1), 0)", "where an input lies"),
    ],
)
def test_what_does_not_fit_is_refused(old, new, message):
    x, y = torch.randn(4, 5), torch.randn(4, 5)
    compiled = fulgurite.jit(program)
    compiled(x, y)
    text = last_text(compiled, 0)
    assert old in text
    with pytest.raises(fulgurite.UserError, match=message):
        fulgurite.replace_trace(compiled, text.replace(old, new))
    assert torch.equal(compiled(x, y)[0], program(x, y)[0])
    assert last_text(compiled, 0) == text


def test_a_write_that_is_seen_through_another_tensor_is_refused():
    held = torch.ones(3)
    compiled = fulgurite.jit(lambda x: x + held)
    compiled(torch.ones(3))
    text = last_text(compiled, 0)
    with pytest.raises(fulgurite.UserError, match="writes to an input, and what was compiled does"):
        fulgurite.replace_trace(compiled, text.replace("torch.add(x,", "torch.add(x.mul_(2),"))
    fulgurite.replace_trace(compiled, text.replace("torch.add(x,", "torch.add(x.clone().mul_(2),"))
    assert compiled(held).tolist() == [3, 3, 3] and held.tolist() == [1, 1, 1]
    # The tensors of one call are told apart by the prologue.
    both = fulgurite.jit(lambda x, y: x + y)
    both(torch.ones(3), torch.ones(3))
    text = last_text(both, 0)
    fulgurite.replace_trace(both, text.replace("torch.add(x,", "torch.add(x.mul_(2),"))
    x = torch.ones(3)
    assert both(x, torch.ones(3)).tolist() == [3, 3, 3] and x.tolist() == [2, 2, 2]


def test_an_error_of_the_new_program_is_not_left_to_the_old_one():
    compiled = fulgurite.jit(lambda x, i: torch.index_select(x, 0, i) + 1)
    x, right, wrong = torch.ones(2), torch.tensor([1, 0]), torch.tensor([5, 0])
    compiled(x, right)
    text = last_text(compiled, 0)
    edited = text.replace("torch.index_select(x, 0, i)", "torch.index_select(x, 0, i * 2 - 1)")
    assert edited != text
    fulgurite.replace_trace(compiled, edited)
    with pytest.raises((IndexError, RuntimeError)):
        compiled(x, right)  # which eager takes
    assert fulgurite.compile_data(compiled).fallbacks == []
    fulgurite.restore_trace(compiled)
    assert compiled(x, right).tolist() == [2, 2]
    with pytest.raises((IndexError, RuntimeError)):
        compiled(x, wrong)


def test_what_is_no_program_is_refused():
    x = torch.ones(2)
    compiled = fulgurite.jit(lambda x: x + 1)
    with pytest.raises(fulgurite.UserError, match="call the function first"):
        fulgurite.replace_trace(compiled, "")
    compiled(x)
    with pytest.raises(fulgurite.UserError, match="got a int"):
        fulgurite.replace_trace(compiled, 3)
    other = fulgurite.jit(lambda x, y: x + y)
    other(x, torch.ones(2))
    with pytest.raises(fulgurite.UserError, match="has 2 inputs, and the entry 1"):
        fulgurite.replace_trace(compiled, fulgurite.last_traces(other)[0])
    each = fulgurite.jit(lambda x: x + 1, cache="no caching")
    each(x)
    with pytest.raises(fulgurite.UserError, match="compiles each call anew"):
        fulgurite.replace_trace(each, last_text(each))


def test_a_text_that_exits_is_refused():
    compiled = fulgurite.jit(lambda x: x * 2)
    compiled(torch.ones(2))
    text = fulgurite.last_traces(compiled)[-1].text()
    with pytest.raises(fulgurite.UserError, match="the text raised SystemExit"):
        fulgurite.replace_trace(compiled, text + "\nraise SystemExit")
    assert compiled(torch.ones(2)).tolist() == [2, 2]
