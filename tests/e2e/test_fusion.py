"""The executor fused_cpu: what it fuses, that it computes what torch does, and its inspection."""

import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import fulgurite
from fulgurite import examine
from tests.e2e.python_process import run_code

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


def operators(compiled):
    return [
        [name.partition("::")[2].partition(".")[0] for name in fusion.operators]
        for _, fusion in fusions(compiled)
    ]


def reasons(compiled):
    return [d.refusal for d in fulgurite.compile_data(compiled).fusion_decisions if d.refusal]


def test_one_call_is_a_fusion_where_that_is_faster():
    compiled = fulgurite.jit(lambda x: F.gelu(x, approximate="tanh"), **FUSED)
    x = torch.randn(100, 1001)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), F.gelu(x, approximate="tanh"))
    assert operators(compiled) == [["gelu"]]


@pytest.mark.parametrize(
    "program, shape",
    [
        (lambda x: torch.atan2(x, x), (64, 512)),  # we have none in vectors
        (lambda x: x + x[0], (20_000, 3)),  # rows of three elements
    ],
)
def test_what_is_faster_with_aten_stays_there(program, shape):
    compiled = fulgurite.jit(program, **FUSED)
    x = torch.randn(shape)
    with torch.no_grad():
        assert torch.equal(compiled(x), program(x))
    assert not operators(compiled)
    alone = [reason for reason in reasons(compiled) if "alone it gains nothing" in reason]
    assert re.search(r"about \d+\.\d us, with ATen \d+\.\d us", alone[0])


def test_a_costly_call_is_not_repeated_for_each_row():
    def program(x, row):
        return x * row.cos().sin().exp().log().tanh()

    compiled = fulgurite.jit(program, **FUSED)
    x, row = torch.randn(1000, 256), torch.rand(256)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, row), program(x, row))
    assert not any({"mul", "tanh"} <= set(region) for region in operators(compiled))
    assert any("as one they take about" in reason for reason in reasons(compiled))


def test_a_reduction_to_few_elements_is_left_to_all_cores():
    compiled = fulgurite.jit(lambda x: (x * 2).sum(), **FUSED)
    x = torch.ones(1024, 1024)
    with torch.no_grad():
        assert compiled(x).item() == 2 * 1024 * 1024
    assert any("one core" in reason for reason in reasons(compiled))
    assert not any("sum" in region for region in operators(compiled))


def test_kernels_that_clang_does_not_simplify_in_one_round_compile():
    def program(x):
        y = F.interpolate(x[None, None], scale_factor=2, mode="bilinear")
        return y, x.sum((0, 1)), x.var(correction=0), x.std(dim=1, unbiased=False)

    x = torch.randn(4, 3)
    with torch.no_grad():
        for result, wanted in zip(fulgurite.jit(program, **FUSED)(x), program(x), strict=True):
            torch.testing.assert_close(result, wanted)


def test_a_call_may_give_an_argument_back_as_it_is():
    compiled = fulgurite.jit(lambda x: torch.broadcast_tensors(x, x[0]), **FUSED)
    x = torch.randn(4, 3)
    with torch.no_grad():
        assert all(map(torch.equal, compiled(x), (x, x[0].expand(4, 3))))


def test_calls_that_use_the_same_are_one_fusion():
    def program(x):
        return x.cos() * 2, x.sin() * 2

    compiled = fulgurite.jit(program, **FUSED)
    x = torch.randn(100)
    with torch.no_grad():
        for result, wanted in zip(compiled(x), program(x), strict=True):
            torch.testing.assert_close(result, wanted)
    assert operators(compiled) == [["cos", "mul", "sin", "mul"]]


def dies(x):
    y = x @ x
    return (y + 1).relu()


def lives(x):
    y = x @ x
    return (y + 1).relu(), y


def is_seen(x):
    y = x @ x
    v = y.view(-1)
    return (y + 1).relu(), v


def is_read_elsewhere(x):
    y = x @ x
    return y.t() + y * 2


def is_an_argument(x):
    return (x + 1).relu()


@pytest.mark.parametrize("program", [dies, lives, is_seen, is_read_elsewhere, is_an_argument])
def test_memory_is_written_over_only_where_nobody_sees_it(program):
    compiled = fulgurite.jit(program, **FUSED)
    torch.manual_seed(0)
    x = torch.randn(70, 70)
    before = x.clone()
    with torch.no_grad():
        for _ in range(3):
            results, wanted = as_tuple(compiled(x)), as_tuple(program(x))
            for result, value in zip(results, wanted, strict=True):
                torch.testing.assert_close(result, value)
    assert torch.equal(x, before) and operators(compiled)


def test_calls_that_need_gradients_are_fused_in_both_passes():
    a, b = torch.randn(4, 5, requires_grad=True), torch.randn(4, 5)
    compiled = fulgurite.jit(gelu_chain, **FUSED)
    (gradient,) = torch.autograd.grad(compiled(a, b)[0].sum(), a)
    (wanted,) = torch.autograd.grad(gelu_chain(a, b)[0].sum(), a)
    torch.testing.assert_close(gradient, wanted)
    assert fusions(compiled)
    assert fulgurite.examine.get_fusions(fulgurite.last_backward_traces(compiled)[-1])


def test_a_fusion_can_be_looked_into():
    a, b = torch.randn(64, 100), torch.randn(64, 100)
    compiled = fulgurite.jit(gelu_chain, **FUSED, nv_store_fusion_inputs=True)
    with torch.no_grad():
        wanted = compiled(a, b)[0]
    fusion = fulgurite.last_traces(compiled)[-1].python_ctx()["fusion0"]
    assert repr(fusion) == "fusion0 (fused_cpu): (mul, add, gelu, mul, sub)"
    assert torch.equal(fusion(a, b)[0], wanted)
    assert "gelu" in str(fusion.last_used) and "store" in str(fusion.last_used)
    assert 'extern "C"' in fusion.last_used.last_cpu_code()
    assert "ret" in fusion.last_used.assembly()
    assert fusion.last_used.bytes() == 4 * 64 * 100 * 4
    assert 0 < fusion.last_used.time(seconds=0.001) < 1
    assert torch.equal(fusion.last_inputs[0], a)


def test_refusals_can_be_read():
    compiled = fulgurite.jit(shared_inputs, **FUSED)
    with torch.no_grad():
        compiled(torch.randn(4, 6), torch.randn(4, 6))
    decisions = fulgurite.compile_data(compiled).fusion_decisions
    assert any(d.executor == "fused_cpu" and "several rows" in d.refusal for d in decisions)


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
        ran = run_code(code, FULGURITE_JIT=setting, FULGURITE_CLANG_PLUGIN="/nowhere.so")
        assert ran.returncode == 0, ran.stderr
        assert ("fulgurite-clang" in ran.stderr) == (setting == "auto")
