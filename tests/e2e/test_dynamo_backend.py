"""torch.compile(backend="fulgurite"): whole graphs, options, dynamic sizes."""

import subprocess
import sys

import pytest
import torch

import fulgurite


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def test_a_module_and_its_gradients():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))
    compiled = torch.compile(model, backend="fulgurite", fullgraph=True)
    x = torch.randn(3, 8)
    torch.testing.assert_close(compiled(x), model(x))
    compiled(x).sum().backward()
    found = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    torch.testing.assert_close(found, [p.grad for p in model.parameters()])
    record = fulgurite.dynamo.graphs()[-1]
    assert record.compile_id is not None and record.attempt == 0 and not record.cuts
    assert not fulgurite.compile_data(record.compiled[0]).fallbacks
    torch._dynamo.reset()
    assert not fulgurite.dynamo.graphs()


def test_one_call_shows_its_traces():
    model = torch.nn.Linear(4, 4)
    compiled = fulgurite.dynamo.thunderfx(model, fullgraph=True, executors=["aten"])
    assert compiled.last_traces == [] and compiled.in_features == 4
    compiled(torch.ones(2, 4)).sum().backward()
    assert len(compiled.graphs) == len(compiled.last_traces) == 1
    assert "linear" in compiled.last_traces[0].text()
    assert "mm" in compiled.last_backward_traces[0].text()


def test_a_graph_break_gives_two_graphs():
    def program(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    compiled = fulgurite.dynamo.compile(program)
    assert compiled(torch.ones(2)).tolist() == [3, 3]
    assert len(compiled.graphs) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fallbak": "eager"}, "did you mean 'fallback'"),
        ({"fallback": "error"}, "is 'eager' or 'inductor', got 'error'"),
        ({"min_chunk": 0}, "is a positive int"),
        ({"entries": 0}, "is a positive int"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(fulgurite.UserError, match=message):
        fulgurite.dynamo.compile(torch.sin, **options)
    compiled = torch.compile(lambda x: x + 1, backend="fulgurite", options=options)
    with pytest.raises(Exception, match=message):
        compiled(torch.ones(1))


def test_unknown_modes_are_refused():
    compiled = torch.compile(lambda x: x + 1, backend="fulgurite", mode="fast")
    with pytest.raises(Exception, match="no mode 'fast'"):
        compiled(torch.ones(1))


def test_new_sizes_within_one_graph():
    def program(x):
        return torch.nn.functional.gelu(x * x.shape[0]).sum(-1)

    compiled = fulgurite.dynamo.compile(program, dynamic=True, fullgraph=True)
    for rows in (5, 2, 9, 17, 5):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(compiled(x), program(x))
    assert len(compiled.graphs) == 1


def test_inputs_and_buffers_that_are_written():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count += 1
            x.mul_(2)
            return x + self.count

    model, x = Model(), torch.ones(2)
    compiled = torch.compile(model, backend="fulgurite", fullgraph=True)
    assert compiled(x).tolist() == [3, 3]
    assert compiled(x).tolist() == [6, 6]
    assert model.count.tolist() == [2] and x.tolist() == [4, 4]


COLD = """
import sys, fulgurite, torch
assert "torch._dynamo" not in sys.modules and "fulgurite.dynamo" not in sys.modules
assert "fulgurite" in torch._dynamo.list_backends()
assert "fulgurite.dynamo" not in sys.modules
print(torch.compile(lambda x: x + 1, backend="fulgurite")(torch.ones(1)).item())
"""
LATE = """
import torch, torch._dynamo
torch._dynamo.list_backends()
import fulgurite
print(torch.compile(lambda x: x + 1, backend="fulgurite")(torch.ones(1)).item())
"""


@pytest.mark.parametrize("program", [COLD, LATE])
def test_the_name_is_known_without_an_installed_distribution(program):
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "2.0\n", ran.stderr
