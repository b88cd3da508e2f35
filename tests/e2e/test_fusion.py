"""The executor fused_cpu: what it fuses, that it computes what torch does, and its inspection."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import fulgurite
from fulgurite import examine

FUSED = {"executors": ["fused_cpu", "aten"]}


def gelu_chain(a, b):
    return F.gelu(a * b + 1, approximate="tanh") * 2, (a - b).t()


def views_and_broadcast(a, b):
    return (a.t()[1:] * b[0, :1] + a.t()[:-1]).relu() - b.sum()


def mixed_types(a, b):
    return (a.half() + b.double()).to(torch.int32) * 3 + (a > b)


def shared_inputs(a, b):
    c = a + b
    return c * a, c * b, torch.mm(c * 2 + 1, b.t())


PROGRAMS = [gelu_chain, views_and_broadcast, mixed_types, shared_inputs]


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def fusions(compiled):
    return examine.get_fusions(fulgurite.last_traces(compiled)[-1])


@pytest.mark.parametrize("shape", [(5, 7), (64, 100), (1, 1), (3, 1), (0, 4), (257, 1025)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_eager(program, shape):
    if program is views_and_broadcast and 0 in shape:
        pytest.skip("it takes a first row")
    torch.manual_seed(0)
    a, b = torch.randn(shape), torch.randn(shape)
    compiled = fulgurite.jit(program, **FUSED)
    with torch.no_grad():
        results, expected = as_tuple(compiled(a, b)), as_tuple(program(a, b))
    assert fusions(compiled)
    for result, wanted in zip(results, expected, strict=True):
        assert result.dtype == wanted.dtype and result.stride() == wanted.stride()
        torch.testing.assert_close(result, wanted, equal_nan=True)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_same_bits(threads):
    torch.manual_seed(0)
    a, b = torch.randn(700, 1001), torch.randn(700, 1001)
    compiled = fulgurite.jit(gelu_chain, **FUSED)
    before = torch.get_num_threads()
    with torch.no_grad():
        torch.set_num_threads(1)
        one = compiled(a, b)[0]
        torch.set_num_threads(threads)
        try:
            assert torch.equal(compiled(a, b)[0], one)
        finally:
            torch.set_num_threads(before)


def test_new_shapes_share_machine_code():
    compiled = fulgurite.jit(gelu_chain, **FUSED)
    texts = set()
    with torch.no_grad():
        for rows in range(3, 8):
            compiled(torch.randn(rows, 40), torch.randn(rows, 40))
            texts.add(fusions(compiled)[0][1].last_used.last_cpu_code())
    assert len(texts) == 1


def test_calls_that_need_gradients_are_left_to_autograd():
    a, b = torch.randn(4, 5, requires_grad=True), torch.randn(4, 5)
    compiled = fulgurite.jit(gelu_chain, **FUSED)
    (gradient,) = torch.autograd.grad(compiled(a, b)[0].sum(), a)
    (wanted,) = torch.autograd.grad(gelu_chain(a, b)[0].sum(), a)
    assert torch.equal(gradient, wanted) and not fusions(compiled)


def test_a_fusion_can_be_looked_into():
    a, b = torch.randn(64, 100), torch.randn(64, 100)
    compiled = fulgurite.jit(gelu_chain, **FUSED, nv_store_fusion_inputs=True)
    with torch.no_grad():
        wanted = compiled(a, b)[0]
    fusion = fulgurite.last_traces(compiled)[-1].python_ctx()["fusion0"]
    assert repr(fusion) == "fusion0 (fused_cpu): (mul, add, gelu, mul)"
    assert torch.equal(fusion(a, b), wanted)
    assert "gelu" in str(fusion.last_used) and "store" in str(fusion.last_used)
    assert 'extern "C"' in fusion.last_used.last_cpu_code()
    assert "ret" in fusion.last_used.assembly()
    assert fusion.last_used.bytes() == 3 * 64 * 100 * 4
    assert 0 < fusion.last_used.time(seconds=0.001) < 1
    assert torch.equal(fusion.last_inputs[0], a)


def test_refusals_can_be_read():
    compiled = fulgurite.jit(shared_inputs, **FUSED)
    with torch.no_grad():
        compiled(torch.randn(4, 6), torch.randn(4, 6))
    decisions = fulgurite.compile_data(compiled).fusion_decisions
    assert any(d.executor == "fused_cpu" and "no loop form" in d.refusal for d in decisions)


def test_views_are_fused():
    compiled = fulgurite.jit(lambda x: ((x * 2).t()[1:] + 1).exp(), **FUSED)
    x = torch.randn(4, 6)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), ((x * 2).t()[1:] + 1).exp())
    ((_, fusion),) = fusions(compiled)
    assert repr(fusion) == "fusion0 (fused_cpu): (mul, t, slice, add, exp)"


@pytest.mark.parametrize("values", [False, True])
def test_a_script_repeats_a_fusion(values, tmp_path):
    compiled = fulgurite.jit(gelu_chain, **FUSED, store_fusion_inputs=True)
    with torch.no_grad():
        compiled(torch.randn(4, 6).t(), torch.randn(6, 4))
    trace = fulgurite.last_traces(compiled)[-1]
    script = tmp_path / "repro.py"
    script.write_text(examine.get_nvfuser_repro(trace, "fusion0", values=values))
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "fused:" in ran.stdout and "def fusion0" in ran.stdout


def test_errors_say_what_to_do():
    compiled = fulgurite.jit(gelu_chain, **FUSED)
    with torch.no_grad():
        compiled(torch.randn(2, 3), torch.randn(2, 3))
    trace = fulgurite.last_traces(compiled)[-1]
    with pytest.raises(fulgurite.UserError, match=r"store_fusion_inputs=True.*call"):
        examine.get_fusion_repro(trace, "fusion0")
    with pytest.raises(fulgurite.UserError, match="its fusions are: fusion0"):
        examine.get_fusion_repro(trace, "fusion7")
    with pytest.raises(fulgurite.UserError, match="expected a trace"):
        examine.get_fusions(compiled)


def test_without_a_compiler_everything_is_left_to_torch():
    code = (
        "import torch, fulgurite\n"
        "f = fulgurite.jit(lambda x: x * 2 + 1, executors=['fused_cpu', 'aten'])\n"
        "assert f(torch.ones(2)).tolist() == [3.0, 3.0]\n"
        "assert not fulgurite.examine.get_fusions(fulgurite.last_traces(f)[-1])\n"
    )
    for setting in ("off", "auto"):
        environment = {"FULGURITE_JIT": setting, "FULGURITE_CLANG_PLUGIN": "/nowhere.so"}
        ran = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert ("fulgurite-clang" in ran.stderr) == (setting == "auto")
