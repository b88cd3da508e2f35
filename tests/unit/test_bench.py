"""The arithmetic and the programs of the benchmarks; no time is judged."""

import itertools

import pytest
import torch

from bench import memory, overhead
from bench.contenders import EAGER, Contender
from bench.programs import MLP, overhead_programs
from bench.tables import ratio_cell, table
from bench.timing import MIN_ROUNDS, _summary, interleave


def test_a_ratio_is_taken_round_by_round():
    reference = [1.0, 2.0, 4.0, 8.0, 1.0]  # a machine that slows down
    timing = _summary([2 * t for t in reference], reference)
    assert (timing.low, timing.ratio, timing.high) == (2.0, 2.0, 2.0)
    assert (timing.best, timing.rounds) == (2.0, 5)
    assert ratio_cell(timing) == "2.00x (2.00-2.00)"


def test_contenders_take_turns():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    timings = interleave(calls, seconds=0)
    assert all(t.rounds >= MIN_ROUNDS for t in timings.values())
    changes = sum(x != y for x, y in itertools.pairwise(order))
    assert changes >= MIN_ROUNDS


def test_a_wrong_contender_is_not_timed():
    wrong = Contender("wrong", lambda f: lambda *args: f(*args) + 1)
    eager = Contender(EAGER, lambda f: f)
    program = overhead_programs(training=False)[0]
    with pytest.raises(AssertionError, match="wrong: 1 op infer is wrong"):
        overhead._calls([eager, wrong], program, "infer")
    assert set(overhead._calls([eager, eager], program, "infer")) == {EAGER}


@pytest.mark.parametrize("mode", overhead.MODES)
def test_every_program_runs(mode):
    eager = Contender(EAGER, lambda f: f)
    for program in overhead_programs(mode != "infer"):
        for call in overhead._calls([eager], program, mode).values():
            call()
    assert MLP()(torch.randn(2, 256)).shape == (2, 256)


def test_tables_are_aligned():
    assert table(["a", "b"], [["long name", "1"]]) == "a          b\n------------\nlong name  1"


def testgrowth_is_seen():
    kept = []
    assert memory.growth(lambda i: kept.append(bytes(10_000)), 1000) > 5000  # KiB
    kept.clear()
    assert memory.growth(lambda i: bytes(10_000), 1000) < 1000
