"""Every call that the printer writes is the call that Python makes of it."""

import os
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import torch

import generate_spelling as generate

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def spelled(tmp_path_factory) -> list[list[str]]:
    """Lines of operator, call as printed, call written out."""
    default = ROOT / "build" / "release" / "tests" / "unit_tests"
    binary = Path(os.environ.get("FULGURITE_UNIT_TESTS", default))
    if not binary.exists():
        pytest.skip(f"no {binary}: build the C++ tests first")
    path = tmp_path_factory.mktemp("spelled") / "calls"
    env = os.environ | {"FULGURITE_SPELLED_CALLS": str(path)}
    subprocess.run([binary, "--test-case=spelled calls"], env=env, check=True, capture_output=True)
    return [line.split("\t") for line in path.read_text().splitlines()]


def same(a, b) -> bool:
    if a is None or b is None:
        return a is b
    (op_a, args_a, kwargs_a), (op_b, args_b, kwargs_b) = a, b
    if op_a is not op_b or kwargs_a.keys() != kwargs_b.keys():
        return False
    return generate.same(args_a, args_b) and all(
        generate.same(kwargs_a[k], kwargs_b[k]) for k in kwargs_a
    )


def test_calls_are_what_they_say(spelled):
    observer = generate.Observer()
    scope = {
        "torch": torch,
        "x": torch.zeros(2, 3),
        "y": torch.zeros(3, 2).t(),
        "z": torch.tensor(1.5),
        "i": torch.tensor(1),
    }
    tally: Counter[str] = Counter()
    pretty_operators = set()
    wrong = []
    with observer.watching():
        for name, printed, full in spelled:
            expected = observer.observe(partial(eval, full, scope))
            if expected is not None:
                assert expected[0].name() == name.removesuffix(".default"), full
            arrived = observer.observe(partial(eval, printed, scope))
            pretty = "torch.ops." not in printed
            tally["pretty" if pretty else "torch.ops"] += 1
            tally["did not arrive"] += expected is None
            if pretty:
                pretty_operators.add(name)
            if not same(arrived, expected) or (pretty and expected is None):
                wrong.append((printed, full, arrived, expected))
    print(dict(tally), len(pretty_operators), "operators with a pretty form")
    assert not wrong, wrong[:10]
    assert len(pretty_operators) > 1400
    assert tally["pretty"] > 15_000


def test_table_is_current():
    # In a process of its own, where torch is as it comes: fulgurite wraps some functions.
    subprocess.run([sys.executable, generate.__file__, "--check"], check=True)
