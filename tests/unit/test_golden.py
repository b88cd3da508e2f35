"""The golden programs are complete: they run with `import torch` alone."""

import re
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_flatten

GOLDEN = Path(__file__).parent.parent / "golden"
PROGRAMS = sorted(p.stem for p in GOLDEN.glob("*.txt") if ".explicit" not in p.name)


def inputs_of(text: str) -> list[torch.Tensor]:
    """One tensor per parameter of `computation`, of the type in its comment."""
    torch.manual_seed(0)
    parameters = re.search(r"def computation\((.*)\):", text).group(1)
    tensors = []
    for name in filter(None, parameters.split(", ")):
        sizes, grad = re.search(rf'  # {name}: "cpu f32\[(.*?)\]( grad)?"', text).groups()
        shape = [int(size) for size in sizes.split(", ") if size]
        tensors.append(torch.randn(shape, requires_grad=grad is not None))
    return tensors


def equal(a, b) -> bool:
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def run(text: str):
    scope = {}
    exec(compile(text, "<program>", "exec"), scope)
    assert scope.keys() - {"__builtins__"} >= {"torch", "computation"}
    inputs = inputs_of(text)
    return scope["computation"](*inputs), inputs


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_runs(name):
    text = (GOLDEN / f"{name}.txt").read_text()
    results = run(text)
    explicit = GOLDEN / f"{name}.explicit.txt"
    if explicit.exists():
        leaves, structure = tree_flatten(results)
        expected, expected_structure = tree_flatten(run(explicit.read_text()))
        assert structure == expected_structure
        assert all(map(equal, leaves, expected))


def test_grad_modes():
    y, (x,) = run((GOLDEN / "modes.txt").read_text())
    assert torch.equal(y, -x.sin().cos().exp().abs())
    assert not y.requires_grad


def test_ambient_autocast_does_not_act():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result, _ = run((GOLDEN / "captured.txt").read_text())
    assert result.dtype == torch.float32
