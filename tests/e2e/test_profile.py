"""fulgurite.profile, and what torch's profilers show of a compiled program."""

import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fulgurite
from fulgurite import UserError


def block():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8), nn.LayerNorm(8))


def test_a_line_for_each_call_of_the_executed_trace():
    compiled = fulgurite.jit(block())
    with torch.no_grad():
        profile = fulgurite.profile(compiled, torch.randn(4, 8), runs=3)
    trace = fulgurite.last_traces(compiled)[-1]
    assert profile.forward.trace is trace
    assert [line.text for line in profile.lines] == [repr(s) for s in trace.bound_symbols]
    assert profile.backward is None and profile.runs == 3
    assert all(line.seconds > 0 for line in profile.lines)
    assert (
        profile.seconds
        >= profile.forward.seconds
        >= sum(line.seconds for line in profile.lines) / 2
    )


def test_bytes_and_operations():
    def program(x, w):
        y = (x @ w).t()
        return torch.sin(y.t()) * 2 + 1

    x, w = torch.randn(32, 64), torch.randn(64, 16)
    profile = fulgurite.profile(program, x, w, runs=2)
    product = next(
        line for line in profile.lines if "mm" in line.operator or "matmul" in line.operator
    )
    assert product.flops == 2 * 32 * 64 * 16
    assert product.bytes == 4 * (32 * 64 + 64 * 16 + 32 * 16)
    fusion = next(line for line in profile.lines if line.executor == "fused_cpu")
    assert fusion.bytes == 2 * 4 * 32 * 16 and fusion.flops == 0
    assert fusion.file == __file__ and "torch.sin" in fusion.code
    assert all(line.bytes == 0 for line in profile.lines if line.operator == "aten::t")
    assert product.flops_per_second == product.flops / product.seconds


def test_the_backward_pass_and_nothing_accumulated():
    compiled, x = fulgurite.jit(block()), torch.randn(4, 8, requires_grad=True)
    profile = fulgurite.profile(compiled, x, backward=True, runs=3)
    assert profile.backward.trace is fulgurite.last_backward_traces(compiled)[-1]
    assert len(profile.lines) == len(profile.forward.lines) + len(profile.backward.lines)
    assert x.grad is None and all(p.grad is None for p in compiled.parameters())
    totals = profile.by_operator()
    assert sum(t.calls for t in totals) == len(profile.lines)
    assert totals == sorted(totals, key=lambda t: -t.seconds)
    assert profile.slowest(2) == sorted(profile.lines, key=lambda line: -line.seconds)[:2]
    assert profile.overhead >= 0
    text = str(profile)
    for shown in ("forward,", "backward,", "by operator", "GFLOP/s", "linear.py:"):
        assert shown in text


def test_parameters_of_a_closure_and_arguments_with_a_history():
    weight = nn.Parameter(torch.randn(8, 8))
    x = torch.randn(4, 8, requires_grad=True) * 2

    def program(x):
        return torch.relu(x @ weight).sum()

    profile = fulgurite.profile(program, x, backward=True, runs=2)
    assert "d_x" in str(profile) and weight.grad is None


def test_random_numbers_are_drawn_from_the_state_that_there_was():
    before = torch.get_rng_state()
    fulgurite.profile(lambda x: F.dropout(x), torch.ones(64), runs=2)
    assert torch.equal(before, torch.get_rng_state())


def test_what_is_changed_is_changed_by_each_call():
    norm = nn.BatchNorm1d(4)
    fulgurite.profile(norm, torch.randn(8, 4), runs=5)
    assert norm.num_batches_tracked == 8  # three calls to warm up


def test_the_entry_that_serves_these_arguments():
    compiled = fulgurite.jit(lambda x: torch.sin(x) + 1)
    small, large = torch.randn(4), torch.randn(400)
    compiled(small)
    compiled(large)
    profile = fulgurite.profile(compiled, small, runs=2)
    assert profile.lines[-1].bytes == 2 * 4 * 4


def test_errors():
    x = torch.randn(4)
    with pytest.raises(UserError, match="are not compiled: .*item"):
        fulgurite.profile(fulgurite.jit(lambda x: x * float(x.sum()), fallback="eager"), x)
    with pytest.raises(UserError, match="needs a result that requires grad"):
        fulgurite.profile(lambda x: x * 2, x, backward=True)
    with pytest.raises(UserError, match="1 or more, got 0"):
        fulgurite.profile(lambda x: x * 2, x, runs=0)
    y = torch.randn(4, requires_grad=True)
    with pytest.raises(UserError, match="is not a trace of ours: .*nonzero"):
        fulgurite.profile(lambda x: torch.prod(x * 2), y, backward=True)


@pytest.mark.parametrize("shapes", [False, True])
def test_torch_profiler_shows_fusions_and_programs_by_name(shapes, tmp_path):
    def loss(x, w):
        return (F.gelu(x @ w) * 2).sum()

    compiled = fulgurite.jit(loss)
    x, w = torch.randn(64, 64), torch.randn(64, 64, requires_grad=True)
    compiled(x, w).backward()
    with torch.profiler.profile(record_shapes=shapes) as profiler:
        compiled(x, w).backward()
    names = {event.key for event in profiler.key_averages()}
    series = (fulgurite.last_traces(compiled), fulgurite.last_backward_traces(compiled))
    for trace, what in zip(
        (traces[-1] for traces in series), ("computation", "backward"), strict=True
    ):
        program = next(name for name in names if name.endswith(f"loss): {what}"))
        assert program.startswith("fulgurite.jit(")
        for _, fusion in fulgurite.examine.get_fusions(trace):
            assert any(name.startswith(f"{fusion.name} (") for name in names)
    event = next(e for e in profiler.events() if "gelu)" in e.name or "(gelu" in e.name)
    assert ([64, 64] in event.input_shapes) == shapes
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    written = json.loads((tmp_path / "trace.json").read_text())
    assert any("gelu" in e.get("name", "") for e in written["traceEvents"])
