"""How long a first call takes, and a call with a new shape."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch

from bench.contenders import EAGER, FULGURITE, INDUCTOR, Contender
from bench.programs import MLP, caller, gpt2, llama, small_function
from bench.tables import milliseconds, table
from bench.timing import once

REPETITIONS = 7
BATCHES = [1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 31, 32, 48, 63, 64, 65, 96, 128]

# Milliseconds of the first call in a process, eager and compiled.
CHILD = """
import json, torch, fulgurite
from bench.programs import caller, small_function
from bench.timing import once
torch.set_num_threads(1)
program = small_function()
eager, compiled = (caller(f, program.args) for f in (program.target, fulgurite.jit(program.target)))
with torch.no_grad():
    print(json.dumps([once(eager), once(compiled)]))
"""

Make = Callable[[], tuple[Any, Callable[[Any], Callable[[], Any]]]]


def run(contenders: list[Contender], seconds: float) -> tuple[str, dict[str, Any]]:
    records: dict[str, Any] = {}
    rows = []
    for name, program in _programs().items():
        records[name] = _first_calls(contenders, *program)
        rows.append(_row(f"first call, {name}", contenders, records[name]))
    for name, cached in (("no kernels cached", False), ("kernels cached", True)):
        records[name] = _new_processes(cached)
        rows.append(_row(f"a new process, {name}", contenders, records[name]))
    records["new shapes"] = {c.name: _new_shapes(c) for c in contenders}
    rows.append(_row(f"MLP, {len(BATCHES)} batch sizes", contenders, records["new shapes"]))
    head = ["ms, best / median"] + [c.name for c in contenders]
    head += [f"{c.name} / eager" for c in contenders if c.name != EAGER]
    return table(head, rows), records


def _row(name: str, contenders: list[Contender], record: dict[str, dict]) -> list[str]:
    eager = record[EAGER]["best"]
    found = [record.get(c.name) for c in contenders]
    cells = [
        f"{milliseconds(r['best'])} / {milliseconds(r['median'])}" if r else "-" for r in found
    ]
    ratios = [
        f"{r['best'] / eager:.1f}x" if r else "-"
        for c, r in zip(contenders, found, strict=True)
        if c.name != EAGER
    ]
    return [name, *cells, *ratios]


def _programs() -> dict[str, tuple[Any, Callable[[Any], Callable[[], Any]]]]:
    """For each the target, and what makes a call without arguments of a compiled target."""
    torch.manual_seed(0)
    small = small_function()
    programs: dict[str, tuple] = {
        "small function": (small.target, lambda f: caller(f, small.args)),
    }
    for name, workload in (("Llama, 2 layers", llama(2)), ("GPT-2, 12 layers", gpt2(12))):
        inputs = workload.inputs()
        programs[name] = (workload.module, lambda f, inputs=inputs: caller(f, inputs))
    return programs


def _first_calls(
    contenders: list[Contender], target: Any, call_of: Callable[[Any], Callable[[], Any]]
) -> dict[str, dict[str, float]]:
    """In turns; each time compiled anew. The very first is not counted: what is loaded or cached
    once for the process is then there."""
    times: dict[str, list[float]] = {c.name: [] for c in contenders}
    with torch.no_grad():
        for i in range(REPETITIONS + 1):
            for contender in contenders:
                if contender.name == INDUCTOR and i > 2:
                    continue  # takes long
                contender.reset()
                call = call_of(contender.compile(target))
                seconds = once(call)
                if i:
                    times[contender.name].append(seconds)
    return {name: _summary(values) for name, values in times.items()}


def _new_processes(cached: bool) -> dict[str, dict[str, float]]:
    """The first call of the small function in a process, with kernels on disk or none."""
    times: list[list[float]] = []
    with tempfile.TemporaryDirectory() as kept:
        for i in range(REPETITIONS + 1):
            with tempfile.TemporaryDirectory() as empty:
                environment = os.environ | {"FULGURITE_CACHE_DIR": kept if cached else empty}
                command = [sys.executable, "-c", CHILD]
                done = subprocess.check_output(command, env=environment)
            if i:  # the first one has read the files that all of them need
                times.append(json.loads(done))
    return {
        name: _summary(list(values))
        for name, values in zip((EAGER, FULGURITE), zip(*times, strict=True), strict=True)
    }


def _new_shapes(contender: Contender) -> dict[str, float]:
    """All batch sizes in a row, each for the first time; repeated with a new compiled module."""
    torch.manual_seed(0)
    module = MLP()
    inputs = [torch.randn(batch, 256) for batch in BATCHES]
    totals = []
    with torch.no_grad():
        for _ in range(2 if contender.name == INDUCTOR else REPETITIONS):
            contender.reset()
            compiled = contender.compile(module)
            totals.append(sum(once(caller(compiled, (x,))) for x in inputs))
    return _summary(totals)


def _summary(seconds: list[float]) -> dict[str, float]:
    return {"best": min(seconds), "median": statistics.median(seconds)}
