"""What can be read of a fusion, wherever and however its program runs."""

import copy
import pickle
import re

import pytest
import torch

import fulgurite
from fulgurite import examine
from tests.e2e.python_process import run_code

FUSED = {"executors": ["fused_cpu", "aten"], "store_fusion_inputs": True}


def program(x, y):
    return (x * y + 1).relu() * y


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        return program(x, self.scale)


def fusions(compiled):
    return examine.get_fusions(fulgurite.last_traces(compiled)[-1])


def fusion_of(compiled):
    return fusions(compiled)[0][1]


def test_speed_is_told_beside_a_copy():
    compiled = fulgurite.jit(program, **FUSED)
    compiled(torch.randn(300, 400), torch.randn(300, 400))
    code = fusion_of(compiled).last_used
    speed = code.throughput(seconds=0.01)
    assert speed.bytes == code.bytes() == 3 * 300 * 400 * 4
    assert speed.seconds > 0 and speed.copy_seconds > 0
    assert speed.share == speed.copy_seconds / speed.seconds
    number = r"\d+\.\d"
    text = rf"1440000 bytes in {number}\d us: {number} GB/s, \d+% of the {number} GB/s of a copy"
    assert re.fullmatch(text, str(speed))
    assert repr(code) == "<the code of fusion0, which moves 1440000 bytes a run>"
    given = code.throughput(torch.ones(300, 400), torch.ones(300, 400), seconds=0.001)
    assert given.seconds > 0


def test_an_empty_run_has_a_time_and_no_speed():
    compiled = fulgurite.jit(program, **FUSED)
    compiled(torch.empty(0, 4), torch.empty(0, 4))
    assert re.fullmatch(r"0 bytes in \d+\.\d\d us", str(fusion_of(compiled).last_used.throughput()))


def test_other_tensors_than_those_of_the_region_are_refused():
    compiled = fulgurite.jit(program, executors=FUSED["executors"])
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    compiled(x, y)
    fusion = fusion_of(compiled)
    with pytest.raises(
        fulgurite.UserError, match="give the tensors to time fusion0 on, or compile"
    ):
        fusion.last_used.time()
    with pytest.raises(fulgurite.UserError, match="fusion0 takes 2 tensors, got 1"):
        fusion.last_used.time(x)
    with pytest.raises(fulgurite.UserError, match="fusion0 takes 2 tensors, got 1"):
        fusion(x)
    with pytest.raises(fulgurite.UserError, match="input 1 is not laid out as the region has it"):
        fusion.last_used.time(x, y.double())
    with pytest.raises(fulgurite.UserError, match=r"call the compiled function"):
        fusion.last_inputs  # noqa: B018
    assert torch.equal(fusion(x, y), program(x, y))


def test_each_shape_has_its_own_fusion():
    compiled, known = fulgurite.jit(program, **FUSED), {}
    for rows in (3, 5):
        x = torch.full((rows, 4), float(rows))
        compiled(x, torch.ones(rows, 4))
        known[rows] = fusion_of(compiled)
    again = torch.zeros(3, 4)
    compiled(again, torch.ones(3, 4))  # of the first entry
    for rows, fusion in known.items():
        assert fusion.last_used.bytes() == 3 * rows * 4 * 4
        assert fusion.last_inputs[0].shape == (rows, 4)
    assert known[3].last_inputs[0].sum() == 0 and known[5].last_inputs[0].sum() == 100
    assert known[3].last_used.last_cpu_code() == known[5].last_used.last_cpu_code()


def test_inputs_are_those_of_the_time_of_the_run():
    def in_place(x):
        x.mul_(2)
        y = (x + 1).relu() * x
        x.zero_()
        return y

    compiled, x = fulgurite.jit(in_place, **FUSED), torch.ones(4)
    assert compiled(x).tolist() == [6.0] * 4 and x.tolist() == [0.0] * 4
    inputs = [t for _, fusion in fusions(compiled) for t in fusion.last_inputs]
    assert inputs and all(t.sum() in (4.0, 8.0) for t in inputs)
    trace = fulgurite.last_traces(compiled)[-1]
    for name, fusion in fusions(compiled):
        assert "def " + name in examine.get_fusion_repro(trace, name)
        assert fusion.last_used.throughput(seconds=0.001).seconds > 0


def test_what_autograd_is_to_see_is_not_fused_and_says_so():
    x, y = torch.randn(4, requires_grad=True), torch.randn(4)

    def with_a_product(x, y):  # whose gradient reads the data
        return program(x, y) * x.prod()

    compiled = fulgurite.jit(with_a_product, **FUSED)
    compiled(x, y)
    trace = fulgurite.last_traces(compiled)[-1]
    assert examine.get_fusions(trace) == [] and list(trace.python_ctx()) == ["torch"]
    with pytest.raises(fulgurite.UserError, match="its fusions are: none; see compile_data"):
        examine.get_fusion_repro(trace, "fusion0")
    reasons = {d.refusal for d in fulgurite.compile_data(compiled).fusion_decisions}
    assert "autograd is to see it" in reasons
    with torch.no_grad():
        compiled(x, y)
    assert not any(t.requires_grad for t in fusion_of(compiled).last_inputs)
    assert fusion_of(compiled).last_used.time(seconds=0.001) > 0
    with torch.inference_mode():
        compiled(torch.randn(4), y)
        assert fusion_of(compiled).last_used.time(seconds=0.001) > 0
        assert "def fusion0" in examine.get_fusion_repro(
            fulgurite.last_traces(compiled)[-1], "fusion0", values=True
        )


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies_of_compiled_modules_are_looked_into(again):
    x = torch.randn(3, 4)
    with torch.no_grad():
        compiled = fulgurite.jit(Module(), **FUSED)
        compiled(x)
        copied = again(compiled)
        with pytest.raises(fulgurite.UserError, match="call the function first"):
            fulgurite.last_traces(copied)
        copied(x)
        trace = fulgurite.last_traces(copied)[-1]
        fusion = trace.python_ctx()["fusion0"]
        assert fusion is not fusion_of(compiled) and torch.equal(fusion.last_inputs[0], x)
        assert "def fusion0" in examine.get_fusion_repro(trace, "fusion0")
        assert examine.bisect(copied, x).compared == ("fusion0",)
    kept = fulgurite.last_traces(compiled)[-1]
    del compiled, copied  # a trace keeps what it shows
    assert kept.python_ctx()["fusion0"].last_used.time(seconds=0.001) > 0


def run(code, **environment):
    ran = run_code(code, **environment)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


LOOK = """
import torch, fulgurite
from fulgurite import examine
compiled = fulgurite.jit(
    lambda x, y: (x * y + 1).relu() * y, executors=["fused_cpu", "aten"], store_fusion_inputs=True)
x = torch.randn(40, 40)
compiled(x, x)
trace = fulgurite.last_traces(compiled)[-1]
"""


def test_narrower_processors():
    code = """
fusion = trace.python_ctx()["fusion0"]
print("zmm" in fusion.last_used.assembly(), "ymm" in fusion.last_used.assembly())
print(fusion.last_used.throughput(seconds=0.001).share > 0)
exec(compile(examine.get_fusion_repro(trace, "fusion0"), "repro", "exec"), {"__name__": "__main__"})
fusion.replace_cpu_code(fusion.printed_cpu_code().replace("f32(1.f)", "f32(2.f)"))
print(examine.bisect(compiled, x, x).fusion is not None)
"""
    out = run(LOOK + code, FULGURITE_CPU="avx2").splitlines()
    assert out[:2] == ["False True", "True"] and out[-1] == "True"


def test_without_a_compiler():
    code = """
print(examine.get_fusions(trace), list(trace.python_ctx()))
print({d.refusal for d in fulgurite.compile_data(compiled).fusion_decisions if d.refusal})
try:
    examine.get_fusion_repro(trace, "fusion0")
except fulgurite.UserError as error:
    print(error)
print(examine.bisect(compiled, x, x))
"""
    assert run(LOOK + code, FULGURITE_JIT="off").splitlines() == [
        "[] ['torch']",
        "{'FULGURITE_JIT=off'}",
        "the trace has no fusion 'fusion0'; its fusions are: none; "
        "see compile_data(f).fusion_decisions for the reasons",
        "no fusion differs, and the results are eager's (none ran; compile_data(f) has the reasons "
        "in fusion_decisions and fallbacks)",
    ]
