"""How long a first call takes, and a call with a new shape."""

import statistics
from collections.abc import Callable
from typing import Any

import torch

from bench.contenders import EAGER, INDUCTOR, Contender
from bench.programs import MLP, caller, gpt2, llama, small_function
from bench.tables import milliseconds, table
from bench.timing import once

REPETITIONS = 7
BATCHES = [1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 31, 32, 48, 63, 64, 65, 96, 128]

Make = Callable[[], tuple[Any, Callable[[Any], Callable[[], Any]]]]


def run(contenders: list[Contender], seconds: float) -> tuple[str, dict[str, Any]]:
    records: dict[str, Any] = {}
    rows = []
    for name, program in _programs().items():
        records[name] = _first_calls(contenders, *program)
        rows.append(_row(f"first call, {name}", contenders, records[name]))
    records["new shapes"] = {c.name: _new_shapes(c) for c in contenders}
    rows.append(_row(f"MLP, {len(BATCHES)} batch sizes", contenders, records["new shapes"]))
    head = ["ms, best / median"] + [c.name for c in contenders]
    head += [f"{c.name} / eager" for c in contenders if c.name != EAGER]
    return table(head, rows), records


def _row(name: str, contenders: list[Contender], record: dict[str, dict]) -> list[str]:
    eager = record[EAGER]["best"]
    cells = [
        f"{milliseconds(record[c.name]['best'])} / {milliseconds(record[c.name]['median'])}"
        for c in contenders
    ]
    ratios = [f"{record[c.name]['best'] / eager:.1f}x" for c in contenders if c.name != EAGER]
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
