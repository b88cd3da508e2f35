"""What is left behind by many calls and by many compilations."""

import ctypes
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.contenders import INDUCTOR, Contender
from bench.programs import MLP, small_function
from bench.tables import table

CALLS = 10_000
RETRACES = 1_000
MANY_ENTRIES = 600  # more than a compiled function keeps


def run(contenders: list[Contender], seconds: float) -> tuple[str, dict[str, Any]]:
    records: dict[str, Any] = {}
    rows = []
    for name, measure in MEASURES.items():
        # Inductor would take hours to compile so often.
        chosen = [c for c in contenders if "calls" in name or c.name != INDUCTOR]
        records[name] = {c.name: measure(c) for c in chosen}
        shown = [f"{records[name][c.name]:.0f}" if c in chosen else "-" for c in contenders]
        rows.append([name, *shown])
    return table(["growth in KiB", *[c.name for c in contenders]], rows), records


def _resident_kib() -> float:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def growth(work: Callable[[int], None], count: int, warm_up: int = 0) -> float:
    """Of the memory in use by `count` rounds of work, after others to warm up: a tenth as many."""
    warm_up = warm_up or count // 10
    for i in range(warm_up):
        work(i)
    before = _resident_kib()
    for i in range(warm_up, warm_up + count):
        work(i)
    return _resident_kib() - before


def _calls(contender: Contender) -> float:
    contender.reset()
    program = small_function()
    compiled = contender.compile(program.target)
    return growth(lambda i: compiled(*program.args), CALLS)


def _training_calls(contender: Contender) -> float:
    contender.reset()
    module, x = MLP(16, 32), torch.randn(4, 16)
    compiled = contender.compile(module)

    def step(i: int) -> None:
        torch.autograd.grad(compiled(x).sum(), list(module.parameters()))

    return growth(step, CALLS)


def _new_shapes(contender: Contender) -> float:
    """One compiled module, which keeps a bounded number of entries: they are full before."""
    contender.reset()
    compiled = contender.compile(MLP(16, 32))

    def call(i: int) -> None:
        with torch.no_grad():
            compiled(torch.randn(1 + i, 16))

    return growth(call, RETRACES, warm_up=MANY_ENTRIES)


def _new_functions(contender: Contender) -> float:
    """Compiled, called once and dropped."""
    contender.reset()
    module, x = MLP(16, 32), torch.randn(4, 16)

    def call(i: int) -> None:
        with torch.no_grad():
            contender.compile(module)(x)

    return growth(call, RETRACES)


MEASURES: dict[str, Callable[[Contender], float]] = {
    f"{CALLS:,} calls": _calls,
    f"{CALLS:,} training calls": _training_calls,
    f"{RETRACES:,} new shapes, one module": _new_shapes,
    f"{RETRACES:,} modules compiled and dropped": _new_functions,
}
