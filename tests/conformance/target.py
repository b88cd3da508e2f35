"""What is held against eager."""

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.conformance.verdict import INTERNAL, Failure


def _nothing(compiled: Any) -> None:
    pass


@dataclass(frozen=True)
class Program:
    """A printed program, to be run with `import torch` alone: `name` is the function to call.

    gradients: of its results, which it takes after the inputs of the series.
    returns_more: than the call does: gradients, or what a backward pass needs.
    """

    name: str
    made_by: str
    text: str
    gradients: tuple[torch.Tensor, ...] = ()
    returns_more: bool = False


@dataclass(frozen=True)
class Series:
    """The programs that one compiled entry is shown as, and the tensors they take."""

    programs: list[Program]
    inputs: list[torch.Tensor]


@dataclass(frozen=True)
class Target:
    """compile: makes a callable of a function or module.
    refusals: exceptions that mean "this program is declined".
    check: raises a Failure where calls of `compiled` were served by something else than compiled
        code; called after each call that succeeded.
    series: of (compiled, args, kwargs), the programs of the entry that serves such a call;
        None: the target prints none.
    """

    name: str
    compile: Callable[[Any], Any]
    refusals: tuple[type[BaseException], ...] = ()
    check: Callable[[Any], None] = _nothing
    series: Callable[[Any, tuple, dict], Series] | None = None


def _ones(value: Any) -> torch.Tensor:
    """Of the type of a value of a trace."""
    empty = torch.empty_strided(value.shape, value.strides, dtype=value.dtype, device=value.device)
    return empty.fill_(1)


def load_target(name: str) -> Target:
    """`eager`, `fulgurite`, `fused_cpu`, `dynamo`, or `module:attribute`, where the attribute is a
    Target."""
    if name == "eager":
        return Target("eager", lambda fn: fn)
    if name == "fulgurite":
        return _fulgurite()
    if name == "fused_cpu":
        return _fulgurite(executors=["fused_cpu", "aten"])
    if name == "dynamo":
        return _dynamo()
    module, _, attribute = name.partition(":")
    if not attribute:
        raise SystemExit(
            f"no target {name!r}: give eager, fulgurite, fused_cpu, dynamo or module:attribute"
        )
    return getattr(importlib.import_module(module), attribute)


def _fulgurite(**options: Any) -> Target:
    fulgurite = importlib.import_module("fulgurite")
    extension = importlib.import_module("fulgurite._C")
    function_of = importlib.import_module("fulgurite._module").function_of

    def check(compiled: Any) -> None:
        fallbacks = fulgurite.compile_data(compiled).fallbacks
        if fallbacks:
            raise Failure(INTERNAL, "fallback", f"ran eagerly: {fallbacks[-1]}")
        if not fulgurite.cache_hits(compiled) + fulgurite.cache_misses(compiled):
            raise Failure(INTERNAL, "not_compiled", "the call never reached the compiled function")

    def series(compiled: Any, args: tuple, kwargs: dict) -> Series:
        entry = extension.entry_for(function_of(compiled), args, kwargs)
        if entry is None:
            raise Failure(INTERNAL, "no_entry", "no entry serves the call that was just made")
        inputs = extension.inputs_of(entry, args, kwargs)
        programs = [
            Program(
                trace.name,
                trace.provenance or "capture",
                trace.text(),
                tuple(_ones(value) for value in trace.inputs[len(inputs) :]),
                len(trace.outputs) > len(entry.record.traces[0].outputs),
            )
            for trace in entry.record.traces
        ]
        return Series(programs, inputs)

    return Target(
        "fulgurite",
        functools.partial(fulgurite.jit, **options),
        refusals=(fulgurite.Unsupported,),
        check=check,
        series=series,
    )


def _dynamo() -> Target:
    """torch.compile(backend="fulgurite", fullgraph=True)."""
    dynamo = importlib.import_module("fulgurite.dynamo")
    compile_data = importlib.import_module("fulgurite").compile_data

    def compile(fn: Any) -> Any:
        torch._dynamo.reset()
        return dynamo.compile(fn, fullgraph=True, dynamic=False)

    def check(compiled: Any) -> None:
        for record in compiled.graphs:
            for function in record.compiled:
                if fallbacks := compile_data(function).fallbacks:
                    raise Failure(INTERNAL, "fallback", f"ran eagerly: {fallbacks[-1]}")

    refusals = (torch._dynamo.exc.Unsupported, torch._dynamo.exc.UserError)
    return Target("dynamo", compile, refusals=refusals, check=check)
