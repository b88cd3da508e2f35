"""What a compilation costs for each call it records, over the models of the list."""

import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import fulgurite
from bench.contenders import Contender
from bench.programs import caller
from bench.tables import table
from fulgurite import _C, _names, _tracing
from fulgurite._arguments import container_places, substitute
from fulgurite._outputs import Outputs
from tests.conformance.models import MODELS

REPETITIONS = 7


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
    head = [
        "model, forward",
        "calls",
        "eager ms",
        "tracing ms",
        "us/call",
        "state ms",
        "compile ms",
    ]
    text = table([*head, "us/call"], rows)
    refused = [name for name in records if name not in (*measured, "mean")]
    return text + (f"\nrefused: {', '.join(refused)}" if refused else ""), records


_COLUMNS = ("calls", "eager", "tracing", "state", "compile")  # seconds, but for the first


def _row(name: str, r: dict[str, float]) -> list[str]:
    tracing = r["tracing"] - r["eager"]  # the model's own Python runs in both
    cells = [f"{r['calls']:.0f}", f"{1e3 * r['eager']:.2f}", f"{1e3 * r['tracing']:.2f}"]
    cells += [f"{1e6 * tracing / r['calls']:.2f}", f"{1e3 * r['state']:.2f}"]
    return [name, *cells, f"{1e3 * r['compile']:.2f}", f"{1e6 * r['compile'] / r['calls']:.2f}"]


def _measure(workload: Any) -> dict[str, float]:
    """The best of several; a call that is recorded counts with those that are nested in it.

    tracing: the call with tensors that record, without the recorder of Python's state, whose part
    of the whole capture is `state`.
    """
    torch.manual_seed(0)
    module, inputs = workload.module.eval(), workload.inputs()
    args, kwargs = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
    eager, tracing, captures, compiling, calls = [], [], [], [], 0
    with torch.no_grad(), _without_collector():
        for _ in range(REPETITIONS):
            compiled = fulgurite.jit(module)
            caller(compiled, inputs)()
            stages = fulgurite.compile_stats(compiled).milliseconds
            captures.append(stages["capture"] / 1e3)
            compiling.append(stages["compile"] / 1e3)
            calls = _count(fulgurite.last_traces(compiled)[0].bound_symbols)
            tracing.append(_processor_seconds(lambda: _trace(module, args, kwargs)))
            eager.append(_processor_seconds(caller(module, inputs)))
    best = {"eager": min(eager), "tracing": min(tracing), "compile": min(compiling)}
    return {"calls": calls, "state": min(captures) - best["tracing"], **best}


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """As within a capture, which switches the cyclic garbage collector off."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _trace(target: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
    tracer = _C.Tracer()
    given = substitute(tracer, target, args, kwargs)
    with _tracing.listening(tracer):
        result = target(*given.args, **given.kwargs)
    places = container_places(given.args, given.kwargs)
    outputs = Outputs(result, lambda value: False, places)
    _names.name_inputs(_C.finish(tracer, outputs.tensors, outputs.tree), target, args, kwargs)


def _processor_seconds(call: Callable[[], Any]) -> float:
    start = time.thread_time()
    call()
    return time.thread_time() - start


def _count(symbols: list) -> int:
    return sum(1 + _count(symbol.subsymbols) for symbol in symbols)
