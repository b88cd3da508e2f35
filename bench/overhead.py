"""What a call costs besides the work: programs on tensors of four elements."""

from collections.abc import Callable
from typing import Any

import torch

from bench.contenders import EAGER, Contender
from bench.programs import TINY, Program, overhead_programs
from bench.tables import microseconds, ratio_cell, table
from bench.timing import interleave

MODES = ("infer", "train-fwd", "train")


def run(contenders: list[Contender], seconds: float) -> tuple[str, dict[str, Any]]:
    records: dict[str, Any] = {}
    rows = []
    for mode in MODES:
        for program in overhead_programs(mode != "infer"):
            name = f"{program.name} {mode}"
            timings = interleave(_calls(contenders, program, mode), seconds)
            records[name] = {who: timing.record() for who, timing in timings.items()}
            rows.append([name, *_cells(timings)])
    others = [c.name for c in contenders if c.name != EAGER]
    head = ["overhead", "eager us"]
    head += [text for name in others for text in (f"{name} us", f"{name} / eager")]
    return table(head, rows), records


def _cells(timings: dict) -> list[str]:
    cells = [microseconds(timings[EAGER].best)]
    for name, timing in timings.items():
        if name != EAGER:
            cells += [microseconds(timing.best), ratio_cell(timing)]
    return cells


def _calls(
    contenders: list[Contender], program: Program, mode: str
) -> dict[str, Callable[[], Any]]:
    calls = {}
    for contender in contenders:
        contender.reset()
        calls[contender.name] = _call(contender.compile(program.target), program, mode)
    wanted = calls[EAGER]()
    for name, call in calls.items():
        for e, a in zip(_tensors(wanted), _tensors(call()), strict=True):
            torch.testing.assert_close(a, e, msg=f"{name}: {program.name} {mode} is wrong")
    return calls


def _tensors(result: Any) -> tuple:
    return result if isinstance(result, tuple) else (result,)


def _call(compiled: Callable, program: Program, mode: str) -> Callable[[], Any]:
    args, leaves = program.args, program.leaves()
    if mode == "train":
        cotangent, gradient = torch.ones(TINY), torch.autograd.grad
        return lambda: gradient(compiled(*args), leaves, cotangent)
    if mode == "train-fwd":
        return lambda: compiled(*args)

    def without_gradients() -> Any:
        with torch.no_grad():
            return compiled(*args)

    return without_gradients
