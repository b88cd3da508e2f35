"""Programs that failed once, some new ones, and the fuzzer itself: it must see faults."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import fulgurite
from fulgurite import _C
from tests.fuzz import check as checking
from tests.fuzz.check import check
from tests.fuzz.dies import dies
from tests.fuzz.evaluation import Rejected, evaluate
from tests.fuzz.exceptions import in_two_minds
from tests.fuzz.generate import generate
from tests.fuzz.operators import LEFT_OUT, operators, with_rules
from tests.fuzz.programs import Call, Given, Program, Ref, make, overload, read, renumbered, script
from tests.fuzz.shrink import shrink
from tests.fuzz.worker import Worker

CASES = sorted(Path(__file__, "..", "cases").resolve().glob("*.txt"))
SEEDS, PER_TEST = 200, 50

pytestmark = pytest.mark.skipif(bool(_C.missing_compiler()), reason="needs the kernel compiler")


@pytest.fixture(scope="module")
def worker():
    one = Worker()
    yield one
    one.stop()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path, worker):
    program = read(path.read_text())
    outcome = worker.run(program)[1]
    assert outcome.kind == "", f"{outcome.kind}: {outcome.detail}"
    assert (
        script(program).split("import torch", 1)[1] == path.read_text().split("import torch", 1)[1]
    )


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_seeds(first, worker):
    fused = 0
    for seed in range(first, first + PER_TEST):
        program, outcome = worker.run(seed)
        assert outcome.kind in ("", "refused", "rejected"), (
            f"seed {seed}: {outcome.kind}: {outcome.detail}\n{program and script(program)}"
        )
        fused += bool(outcome.regions)
    assert fused > PER_TEST * 0.7


def small(*calls, dtype=torch.float32, pattern=(1.0, -2.5, 0.125), outputs=None):
    inputs = (Given(dtype, pattern, (3, 5), (5, 1)), Given(dtype, pattern[:2], (5,), (1,)))
    return Program(inputs, calls, outputs or (calls[-1].results[0],))


CHAIN = small(
    Call("mul.Tensor", (Ref(0), Ref(1)), (), (2,)),
    Call("add.Tensor", (Ref(2), Ref(0)), (("alpha", 2),), (3,)),
    Call("var_mean.correction", (Ref(3), [0]), (("keepdim", True),), (4, 5), True),
    Call("sub.Tensor", (Ref(3), Ref(5)), (), (6,)),
    outputs=(6, 4),
)


def test_a_seed_is_a_program():
    for seed in range(5):
        text = script(generate(seed))
        assert script(generate(seed)) == text
        assert script(read(text)) == text
        assert script(renumbered(read(text))) == text


def test_scripts_run(capsys):
    exec(
        compile(script(replace(CHAIN, others=CHAIN.inputs)), "script", "exec"),
        {"__name__": "__main__"},
    )
    printed = capsys.readouterr().out
    assert "of 15 differ" in printed and "def fusion0" in printed


def test_every_rule_can_be_called():
    assert {o.partition(".")[0] for o in with_rules()} & {"add", "_softmax", "view"}
    assert set(_C.loops.pointwise_operators()) <= {*operators(), *LEFT_OUT}


def as_compiled(monkeypatch, function):
    """The compiler replaced by a function of eager's results."""

    def jit(program, **_):
        return lambda *inputs: function(program, inputs)

    monkeypatch.setattr(checking.fulgurite, "jit", jit)
    monkeypatch.setattr(checking, "_note_regions", lambda *_: None)


def changed(change):
    def run(program, inputs):
        results = list(program(*inputs))
        results[0] = change(results[0], inputs)
        return tuple(results)

    return run


FAULTS = {
    "far": lambda t, _: t * (1 + 1e-4),
    "infinite": lambda t, _: torch.where(t == t.max(), torch.nan, t),
    "dtype": lambda t, _: t.double(),
    "shape": lambda t, _: t[:2],
    "strides": lambda t, _: t.t().contiguous().t(),
    "alias": lambda t, inputs: inputs[0].copy_(t),
    "input": lambda t, inputs: (inputs[1].zero_(), t)[1],
    "threads": lambda t, _: t if torch.get_num_threads() == 1 else t * (1 + 1e-7) + 1e-7,
}


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_are_seen(kind, monkeypatch):
    assert check(CHAIN).kind == ""
    torch.set_num_threads(1)
    as_compiled(monkeypatch, changed(FAULTS[kind]))
    assert check(CHAIN).kind == kind


def test_errors_and_refusals_are_told_apart(monkeypatch):
    def raises(error):
        def run(program, inputs):
            raise error

        return run

    as_compiled(monkeypatch, raises(RuntimeError("no")))
    assert check(CHAIN).kind == "error"
    as_compiled(monkeypatch, raises(fulgurite.Unsupported("no")))
    assert check(CHAIN).kind == "refused"


def test_exact_results_are_compared_exactly(monkeypatch):
    doubled = small(Call("mul.Tensor", (Ref(0), 2.0), (), (2,)), pattern=(1.0, -0.0, 0.5))
    assert check(doubled).kind == ""
    as_compiled(monkeypatch, changed(lambda t, _: t + t.abs() * 6e-8))
    assert check(doubled).kind == "value"
    as_compiled(monkeypatch, changed(lambda t, _: torch.where(t == 0, 0.0, t)))
    assert check(doubled).kind == "zero"


LOOKED_UP = Program(
    (
        Given(torch.float32, (1.0, -2.5, 0.125), (3, 5), (5, 1)),
        Given(torch.int64, (0, 2), (2,), (1,)),
    ),
    (Call("index_select", (Ref(0), 0, Ref(1)), (), (2,)), Call("neg", (Ref(2),), (), (3,))),
    (3,),
)


def test_errors_that_are_not_raised_are_seen(monkeypatch):
    outcome = check(LOOKED_UP)
    assert outcome.kind == "" and outcome.raised == 2
    as_compiled(monkeypatch, lambda run, inputs: run(inputs[0], inputs[1].clamp(0, 2)))
    assert check(LOOKED_UP).kind == "silent"


def test_small_errors_are_allowed_where_rounding_makes_them(monkeypatch):
    as_compiled(monkeypatch, changed(lambda t, _: t + t.abs() * 6e-8))
    assert check(small(Call("exp", (Ref(0),), (), (2,)))).kind == ""


def test_no_jumps_at_rounded_values():
    exp = Call("exp", (Ref(0),), (), (2,))
    log = Call("log", (Ref(2),), (), (3,))
    for last in (Call("floor", (Ref(3),), (), (4,)), Call("eq.Tensor", (Ref(3), Ref(0)), (), (4,))):
        program = small(exp, log, last, pattern=(1.0, 2.0, -3.0))
        with pytest.raises(Rejected, match="jump"):
            evaluate(program, program.inputs)
    halves = small(exp, log, Call("floor", (Ref(3),), (), (4,)), pattern=(1.5, 2.5, -3.5))
    evaluate(halves, halves.inputs)


def test_crashes_end_a_worker_and_not_the_run():
    one = Worker(check=dies)
    try:
        assert one.run(CHAIN)[1].kind == "crash"
        assert one.run(CHAIN)[1].detail.startswith("SIGABRT")
    finally:
        one.stop()


def test_shrinking_keeps_what_fails():
    """A fault in one operator is found among others."""

    def fails(program):
        try:
            evaluate(program, program.inputs)
        except Rejected:
            return False
        return any(c.op == "var_mean.correction" for c in program.calls)

    smallest = shrink(replace(CHAIN, others=CHAIN.inputs), fails, 30)
    assert [c.op for c in smallest.calls] == ["var_mean.correction"]
    assert len(smallest.inputs) == 1 and make(smallest.inputs)[0].numel() == 1


def test_overloads_are_found():
    assert overload("neg") is torch.ops.aten.neg.default


def test_eager_in_two_minds_is_seen():
    nan, one = torch.tensor([float("nan")]), torch.ones(1)
    aten = torch.ops.aten
    assert in_two_minds("pointwise", aten.hardshrink_backward.default, [one, nan, 0.5], {})
    assert not in_two_minds("pointwise", aten.relu.default, [nan], {})
    assert not in_two_minds("pointwise", aten.hardshrink_backward.default, [one, one, 0.5], {})
    infinite = torch.tensor([1.0, 2.0, float("-inf")])
    assert in_two_minds("row", aten.var_mean.correction, [infinite], {})
    assert not in_two_minds("row", aten.amax.default, [infinite], {})
