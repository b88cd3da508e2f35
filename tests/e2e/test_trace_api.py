"""What can be asked of one trace: its calls, its text, a file of it."""

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import fulgurite
from tests.e2e.round_trip import MODES, capture


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.rest = nn.Sequential(nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 2))

    def forward(self, x):
        y = self.first(x)
        return self.rest(y)


@pytest.fixture(scope="module")
def series():
    torch.manual_seed(0)
    compiled = fulgurite.jit(Model())
    with torch.no_grad():
        compiled(torch.randn(3, 4))
    return fulgurite.last_traces(compiled)


def walk(calls, depth=0):
    for call in calls:
        yield depth, call
        yield from walk(call.subsymbols, depth + 1)


def values_in(things):
    for thing in things:
        if isinstance(thing, list):
            yield from values_in(thing)
        elif isinstance(thing, fulgurite.TraceValue):
            yield thing


def test_calls_tell_their_line_module_and_body(series):
    calls = series["capture"].bound_symbols
    assert [call.name.partition(".")[0] for call in calls] == [
        "aten::linear", "aten::gelu", "aten::dropout", "aten::linear",
    ]  # fmt: skip
    assert [call.module for call in calls] == [
        "self.first", "self.rest.0", "self.rest.1", "self.rest.2",
    ]  # fmt: skip
    file, line, function, code = calls[0].source
    assert (file, function, code) == (__file__, "Model.forward", "y = self.first(x)")
    assert line > 0
    assert [inner.name for inner in calls[0].subsymbols] == ["aten::t", "aten::addmm"]


def test_every_value_of_every_body_has_a_type(series):
    for trace in series:
        seen = list(walk(trace.bound_symbols))
        assert max(depth for depth, _ in seen) >= 1
        for _, call in seen:
            for value in [*values_in(call.args), *values_in(call.outputs)]:
                assert isinstance(value.dtype, torch.dtype)
                assert len(value.shape) == len(value.strides)
                assert value.nbytes > 0
                assert value.storage >= 0
                assert not value.is_conj


def test_frees_are_those_of_the_text(series):
    freed = [value.name for _, call in walk(series[-1].bound_symbols) for value in call.frees]
    assert freed
    printed = [line for line in series[-1].text().splitlines() if line.lstrip().startswith("del ")]
    assert freed == [n for line in printed for n in line.lstrip().removeprefix("del ").split(", ")]


def test_geometry_changed_in_place_is_told():
    trace = capture(lambda x: x.clone().t_(), (torch.randn(2, 3),)).trace
    changed = trace.bound_symbols[-1].retyped
    assert [(value.shape, told) for value, told in changed] == [
        ((2, 3), "cpu f32[3, 2] strides (1, 3)")
    ]


def test_a_series_is_indexed_by_the_names_of_passes(series):
    assert series["Delete Last Used"] is series[-1]
    assert series["capture"] is series[0]
    with pytest.raises(KeyError, match="Delete Last Used"):
        series["no such pass"]


def test_the_names_that_a_program_needs(series):
    x = torch.randn(3, 4)
    parameters = list(Model().parameters())
    for trace in series:
        names = trace.python_ctx()
        text = trace.text().replace("import torch\n", "")
        scope = dict(names)
        exec(text, scope)
        torch.manual_seed(1)
        expected = trace.replay([x, *parameters])
        torch.manual_seed(1)
        assert torch.equal(scope["computation"](x, *parameters), expected[0])


PROGRAM = """
import sys, torch, fulgurite
def f(x, d):
    s = {"b": x, "a": x + 1}
    return {k: v * d["w"] for k, v in s.items()}, torch.nn.functional.linear(x, d["w"])
g = fulgurite.jit(f)
g(torch.ones(2, 2), {"w": torch.ones(2, 2), "u": torch.ones(1)})
for trace in fulgurite.last_traces(g):
    print(trace.text(depth=3))
"""


def test_text_is_equal_between_processes(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    texts = [
        subprocess.run(
            [sys.executable, script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert "computation" in texts[0]
    assert texts[0] == texts[1]


def shared_memory(a, b):
    return a.add_(b) * 2, b, a.as_strided((2,), (1,), 1)


def lazy_bits(a, b):
    return (a * 1j).conj() + b, {"k": [a, None, torch.float16, float("inf")]}


def gradients(a, b):
    return torch.autograd.grad((a * b).square().sum(), a)


def nothing(a, b):
    return None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", [shared_memory, lazy_bits, gradients, nothing])
def test_saved_and_loaded_it_is_the_same_program(program, mode, tmp_path):
    if program is gradients and mode != "enable_grad":
        pytest.skip("needs grad mode")
    base = torch.randn(3, 4)
    a, b = base[1:, ::2], base[:2, 1::2]
    if program is gradients:
        a = a.detach().requires_grad_()
    with MODES[mode]():
        captured = capture(program, (a, b))
    for trace in [captured.trace, *fulgurite._C.compile(captured.trace).series]:
        path = tmp_path / "trace.py"
        trace.save(path)
        loaded = fulgurite.load(path)
        assert trace.difference(loaded) == "", trace.text()
        assert loaded.grad_mode == trace.grad_mode
        assert [v.name for v in loaded.inputs] == [v.name for v in trace.inputs]
        # A saved program is one that runs by itself.
        scope = {}
        exec(path.read_text(), scope)
        assert callable(scope["computation"])


def test_a_model_is_loaded(series, tmp_path):
    for trace in series:
        trace.save(tmp_path / "model.py")
        assert trace.difference(fulgurite.load(tmp_path / "model.py")) == ""


def test_an_edited_file_is_another_program(series, tmp_path):
    path = tmp_path / "trace.py"
    series[0].save(path)
    text = path.read_text()
    assert "0.5" in text
    path.write_text(text.replace("0.5", "0.25"))
    assert "argument p" in series[0].difference(fulgurite.load(path))


def test_a_file_that_is_no_trace_is_refused(tmp_path, series):
    path = tmp_path / "other.py"
    path.write_text("raise RuntimeError('this must not run')\n")
    with pytest.raises(fulgurite.UserError, match="no trace that was written by Trace.save"):
        fulgurite.load(path)
    series[0].save(path)
    path.write_text(path.read_text().replace("(x, ", "("))
    with pytest.raises(fulgurite.UserError, match="5 inputs"):
        fulgurite.load(path)
