"""What it costs to find out that a compiled entry still holds, without running it."""

from typing import Any

import torch

import fulgurite
from bench.contenders import INDUCTOR, Contender
from bench.programs import caller, gpt2
from bench.tables import microseconds, ratio_cell, table
from bench.timing import interleave
from fulgurite import _C
from fulgurite._module import function_of

LAYERS = 12
MOST_ENTRIES = 256


def run(contenders: list[Contender], seconds: float) -> tuple[str, dict[str, Any]]:
    torch.manual_seed(0)
    workload = gpt2(LAYERS)
    inputs = workload.inputs()
    with torch.no_grad():
        calls = {"eager call": caller(workload.module, inputs)}
        compiled = fulgurite.jit(workload.module)
        calls["fulgurite call"] = caller(compiled, inputs)
        calls["fulgurite call"]()
        function = function_of(compiled)
        if _C.entry_for(function, (), inputs) is None:
            raise SystemExit("no entry serves the call that has just been made")
        calls["fulgurite guards"] = lambda: _C.entry_for(function, (), inputs)
        if INDUCTOR in {c.name for c in contenders}:
            calls["dynamo guards"] = _dynamo_guards(workload.module, inputs)
        timings = interleave(calls, seconds)
    timings |= interleave(_lookups(), seconds)
    rows = [[name, microseconds(t.best), ratio_cell(t)] for name, t in timings.items()]
    head = [f"GPT-2 of {LAYERS} layers", "us", "/ eager call"]
    return table(head, rows), {name: t.record() for name, t in timings.items()}


def _lookups() -> dict[str, Any]:
    """Finding an entry of one function: alone, and among as many as are kept."""
    calls = {}
    for count in (1, MOST_ENTRIES):
        compiled = fulgurite.jit(lambda x: x + 1)
        for n in range(count):
            compiled(torch.ones(1 + n))
        function, x = function_of(compiled), torch.ones(1)
        calls[f"entry among {count}"] = lambda f=function, x=x: _C.entry_for(f, (x,), {})
    return calls


def _dynamo_guards(module: torch.nn.Module, inputs: dict) -> Any:
    """The guard manager's own check, of the entry that holds. Traced only, not compiled."""
    from torch._C._dynamo.eval_frame import (  # noqa: PLC0415  private, and for Inductor alone
        _debug_get_cache_entry_list,
    )

    torch.compile(module, backend="eager")(**inputs)
    scope = {"self": module, **inputs}
    for entry in _debug_get_cache_entry_list(type(module).forward.__code__):
        if entry.guard_manager.check(scope):
            return lambda: entry.guard_manager.check(scope)
    raise SystemExit("Dynamo has no guards for the call that has just been made")
