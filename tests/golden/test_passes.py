"""Traces before and after passes, as text: one file a case under `passes/`.

A file begins with what it shows, then sections: `=== program` is Python that defines `program` and
`inputs`; `=== captured` is its trace, and every other section is the trace after the pass of that
name, applied to the section before. `pytest tests/golden --update-golden` writes the traces anew.
"""

import linecache
import textwrap
from pathlib import Path

import pytest
import torch

from fulgurite import _C

CASES = sorted((Path(__file__).parent / "passes").glob("*.txt"))


def split(text):
    """The head, and (name, text) of every section."""
    head, *rest = text.split("=== ")
    return head, [tuple(part.split("\n", 1)) for part in rest]


def define(source):
    code = textwrap.dedent(source)
    linecache.cache["program.py"] = (len(code), None, code.splitlines(True), "program.py")
    names = {"torch": torch, "F": torch.nn.functional}
    torch.manual_seed(0)
    exec(compile(code, "program.py", "exec"), names)
    return names["program"], names["inputs"]


def tensors_of(result):
    return [result] if isinstance(result, torch.Tensor) else list(result or ())


def capture(source):
    function, inputs = define(source)
    tracer = _C.Tracer()
    parameters = function.__code__.co_varnames
    traced = [tracer.input(x, name) for x, name in zip(inputs, parameters, strict=False)]
    with tracer:
        results = tensors_of(function(*traced))
    return tracer.finish(results).trace


def produce(sections):
    """The sections with their traces made anew."""
    depth = {"functionalise": 1}
    (first, source), *rest = sections
    assert first == "program"
    made = [(first, source)]
    with torch.set_grad_enabled("# grad" in source):
        trace = capture(source)
    for name, _ in rest:
        if name != "captured":
            trace = getattr(_C.passes, name)(trace)
        trace.verify()
        made.append((name, trace.text(depth=depth.get(name, 0)).strip() + "\n\n"))
    return made


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_case(path, request):
    head, sections = split(path.read_text())
    made = produce(sections)
    text = head + "".join(f"=== {name}\n{body}" for name, body in made)
    text = text.rstrip() + "\n"
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert path.read_text() == text
