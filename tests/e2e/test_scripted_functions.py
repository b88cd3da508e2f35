"""Scripted functions, in a process of their own: torch's testing modules, which others import, put a
Python function in the place of the script's call."""

import subprocess
import sys

PROGRAM = """
import torch
import fulgurite

@torch.jit.script
def scripted(x):
    return torch.where(x > 0, x * 2, x)

compiled = fulgurite.jit(lambda x: scripted(x) + 1)
for _ in range(4):  # the interpreter of scripts changes how it runs after some calls
    x = torch.randn(3)
    assert torch.equal(compiled(x), scripted(x) + 1)
    assert torch.equal(fulgurite.jit(lambda x: scripted(x) * 3)(x), scripted(x) * 3)
names = [call.name for call in fulgurite.last_traces(compiled)[0].bound_symbols]
assert names == ["aten::gt.Scalar", "aten::mul.Scalar", "aten::where.self", "aten::add.Tensor"], names
"""


def test_they_are_traced_through(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
