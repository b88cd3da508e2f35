"""Graphs that are cut: which nodes run outside of compiled chunks, and why."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import fulgurite


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def run(program, *args, **options):
    """The record of the only graph, whose results are those of eager, twice."""
    compiled = fulgurite.dynamo.compile(program, fullgraph=True, **options)
    for _ in range(2):
        torch.manual_seed(0)
        found = compiled(*args)
        torch.manual_seed(0)
        torch.testing.assert_close(found, program(*args))
    (record,) = compiled.graphs
    for function in record.compiled:
        assert not fulgurite.compile_data(function).fallbacks
    return record


def executors(record):
    return [chunk.executor for chunk in record.chunks]


def branch(x):
    return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))


def with_cond(x):
    y = x.sin() * 2 + 1
    return (branch(y) * 2 + 1).relu().sum()


def test_control_flow_is_cut_out():
    record = run(with_cond, torch.ones(4, 4))
    assert executors(record) == ["fulgurite", "eager", "fulgurite"]
    cut = record.cuts[0]
    assert cut.target.endswith("cond") and cut.tried == "its kind"
    assert "branch" not in cut.reason and "torch.cond(" in cut.user and __file__ in cut.user


def test_a_fallback_to_inductor():
    record = run(with_cond, torch.ones(4, 4), fallback="inductor")
    assert executors(record) == ["fulgurite", "inductor", "fulgurite"]


def test_vmap_stays_in_one_piece():
    def program(x):
        y = x.sin() * 2 + 1
        return (torch.vmap(lambda a: a.sum() * a)(y) * 2 + 1).relu().sum()

    record = run(program, torch.ones(4, 4))
    assert executors(record) == ["fulgurite", "eager", "fulgurite"]
    assert {cut.tried for cut in record.cuts} == {"its kind"}


def test_contexts_around_a_cut():
    def program(x):
        y = x.sin() * 2 + 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = branch((y @ y).relu() + 1)
            z = (z @ y * 2).relu()
        with torch.no_grad():
            k = branch(z.float().exp() + y)
            k = k.relu() * 3 - 1
        return k + y, z

    record = run(program, torch.ones(4, 4, requires_grad=True))
    contexts = [cut.context for cut in record.cuts if cut.target.endswith("cond")]
    assert contexts == [("autocast",), ("no_grad",)]
    assert executors(record) == ["fulgurite", "eager"] * 2 + ["fulgurite"]


def test_a_chunk_that_is_too_small_joins_its_neighbours():
    def program(x):
        return branch(branch(x) * 2)

    record = run(program, torch.ones(4), min_chunk=4)
    assert executors(record) == ["eager"]
    sizes = [cut.reason for cut in record.cuts if cut.tried == "the size of its chunk"]
    assert "its chunk has 3 operators, min_chunk is 4" in sizes
    torch._dynamo.reset()
    assert "fulgurite" in executors(run(program, torch.ones(4), min_chunk=3))


def test_what_a_trial_refuses_is_cut_out():
    def program(x, y):
        a = (x * 2 + 1).relu()
        b = torch.nonzero(y)
        return a.sum(), b + 1, (a * 3 - 2).sin()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        record = run(program, torch.ones(3), torch.tensor([0, 1, 1]))
    assert [cut.tried for cut in record.cuts if "nonzero" in cut.target] == ["a trial capture"]


def test_writes_across_a_cut_keep_their_order():
    def program(x, total):
        y = x * 2 + 1
        total.add_(y)
        z = branch(total)
        total.mul_(2)
        return z + total, total - 1

    found, expected = torch.ones(3), torch.ones(3)
    compiled = fulgurite.dynamo.compile(program, fullgraph=True, min_chunk=1)
    for _ in range(2):
        torch.testing.assert_close(compiled(torch.ones(3), found), program(torch.ones(3), expected))
    assert torch.equal(found, expected)
    assert executors(compiled.graphs[0]) == ["fulgurite", "eager", "fulgurite"]


def test_gradients_across_a_cut():
    x = torch.randn(4, 4, requires_grad=True)
    weight = torch.randn(4, 4, requires_grad=True)

    def program(x, weight):
        return (branch((x @ weight).sin() + 1) * 2 + x).relu().sum()

    compiled = fulgurite.dynamo.compile(program, fullgraph=True)
    found = torch.autograd.grad(compiled(x, weight), (x, weight))
    torch.testing.assert_close(found, torch.autograd.grad(program(x, weight), (x, weight)))


def test_checkpoint_regions_are_compiled():
    def program(x, weight):
        return checkpoint(lambda x: (x @ weight).relu().sin(), x, use_reentrant=False).sum()

    x, weight = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    record = run(program, x, weight)
    assert executors(record) == ["fulgurite"]
    assert "higher_order.tag_activation_checkpoint" in record.original.code
    assert "torch.utils.checkpoint.checkpoint(" in record.converted.code


def test_a_program_is_examined_before_it_is_compiled():
    report = fulgurite.examine.examine(lambda x: x.sin() * 2, torch.ones(3))
    assert report.supported and str(report) == "graph 0: 2 operators, 0 cut out"
    report = fulgurite.examine.examine(with_cond, torch.ones(4, 4))
    assert not report.supported and "torch.cond(" in str(report)

    def broken(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    report = fulgurite.examine.examine(broken, torch.ones(3))
    assert len(report.graphs) == 2 and report.breaks and "graph break: " in str(report)
