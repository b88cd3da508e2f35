"""What capture and compilation cost for each call they record, over the models of the list."""

from typing import Any

import torch

import fulgurite
from bench.contenders import Contender
from bench.programs import caller
from bench.tables import table
from bench.timing import once
from tests.conformance.models import MODELS

REPETITIONS = 5


def run(contenders: list[Contender], seconds: float) -> tuple[str, dict[str, Any]]:
    records: dict[str, Any] = {}
    for name, builder in MODELS.items():
        try:
            records[name] = _measure(builder())
        except fulgurite.Unsupported as reason:
            records[name] = {"refused": str(reason)}
    measured = {name: r for name, r in records.items() if "refused" not in r}
    rows = [_row(name, r) for name, r in measured.items()]
    if measured:
        mean = {k: sum(r[k] for r in measured.values()) / len(measured) for k in _COLUMNS}
        rows.append(_row("mean", mean))
        records["mean"] = mean
    head = ["model, forward", "calls", "eager ms", "capture ms", "us/call", "compile ms", "us/call"]
    text = table([*head, "both / eager"], rows)
    refused = [name for name in records if name not in (*measured, "mean")]
    return text + (f"\nrefused: {', '.join(refused)}" if refused else ""), records


_COLUMNS = ("calls", "eager", "capture", "compile")  # seconds, but for the first


def _row(name: str, r: dict[str, float]) -> list[str]:
    cells = [f"{r['calls']:.0f}", f"{1e3 * r['eager']:.2f}"]
    for part in ("capture", "compile"):
        cells += [f"{1e3 * r[part]:.2f}", f"{1e6 * r[part] / r['calls']:.2f}"]
    return [name, *cells, f"{(r['capture'] + r['compile']) / r['eager']:.2f}x"]


def _measure(workload: Any) -> dict[str, float]:
    """The best of several; a call that is recorded counts with those that are nested in it."""
    torch.manual_seed(0)
    module, inputs = workload.module.eval(), workload.inputs()
    eager, capture, compiling, calls = [], [], [], 0
    with torch.no_grad():
        for _ in range(REPETITIONS):
            compiled = fulgurite.jit(module)
            caller(compiled, inputs)()
            stages = fulgurite.compile_stats(compiled).milliseconds
            capture.append(stages["capture"] / 1e3)
            compiling.append(stages["compile"] / 1e3)
            calls = _count(fulgurite.last_traces(compiled)[0].bound_symbols)
            eager.append(once(caller(module, inputs)))
    best = {"eager": min(eager), "capture": min(capture), "compile": min(compiling)}
    return {"calls": calls, **best}


def _count(symbols: list) -> int:
    return sum(1 + _count(symbol.subsymbols) for symbol in symbols)
