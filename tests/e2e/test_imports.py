"""Modules that are imported within a captured call: once, as eager does it."""

import subprocess
import sys

import pytest
import torch

import fulgurite


@pytest.fixture
def late_module(tmp_path, monkeypatch):
    """The name of a module that is not imported yet, with a tensor and a table."""
    name = f"late_module_{tmp_path.name}"
    code = "import torch\nWEIGHT = torch.ones(3) * 2\nTABLE = {'scale': 3.0}\n"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def test_tensors_of_the_module_are_real(late_module):
    @fulgurite.jit
    def program(x):
        module = __import__(late_module)
        return x * module.WEIGHT * module.TABLE["scale"]

    x = torch.ones(3)
    assert program(x).tolist() == [6.0] * 3
    module = sys.modules[late_module]
    assert module.WEIGHT.sum().item() == 6.0
    module.TABLE["scale"] = 5.0
    assert program(x).tolist() == [10.0] * 3
    module.WEIGHT = torch.zeros(3)
    assert program(x).tolist() == [0.0] * 3


def test_a_refused_call_leaves_the_module_whole(late_module):
    @fulgurite.jit
    def program(x):
        module = __import__(late_module)
        return x * module.WEIGHT if x.sum() > 0 else x

    with pytest.raises(fulgurite.Unsupported):
        program(torch.ones(3))
    module = sys.modules[late_module]
    assert module.WEIGHT.tolist() == [2.0] * 3 and module.TABLE == {"scale": 3.0}


COLD = """
import typing_extensions  # puts parts of itself into typing
import torch
import fulgurite

parameter = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([parameter], lr=0.5)
step = fulgurite.jit(optimizer.step)
for _ in range(3):
    parameter.grad = torch.ones(3)
    step()
assert parameter.tolist() == [-0.5] * 3
assert fulgurite.cache_misses(step) <= 2
"""


def test_the_first_step_of_a_process():
    """Torch imports modules and fills caches of typing in the first step of an optimizer."""
    ran = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
