"""From a call that no entry serves to a new entry: capture, passes, plan."""

import dataclasses
import inspect
import time
import warnings

import torch

from fulgurite import _C, _names, _tracing
from fulgurite._arguments import substitute
from fulgurite._C import Unsupported
from fulgurite._outputs import Outputs


@dataclasses.dataclass
class Record:
    """What is kept of one entry for the user to read.

    traces: as captured first, as executed last; empty for an entry that runs eagerly.
    reason: why such calls run eagerly; "" for a compiled entry.
    milliseconds: of "capture" and "compile".
    """

    traces: list = dataclasses.field(default_factory=list)
    decisions: list = dataclasses.field(default_factory=list)
    reason: str = ""
    milliseconds: dict = dataclasses.field(default_factory=dict)


def on_miss(function, key, declined, args, kwargs):
    """Called by the extension when no entry serves a call; returns the call's result."""
    state = function.state
    state.note_miss(function, args, kwargs)
    try:
        if declined:
            raise Unsupported(f"{declined}; fulgurite compiles plain strided torch.Tensor only")
        entry, result = _compile(function, key, args, kwargs)
    except Unsupported as reason:
        if state.options.fallback == "error":
            raise
        return _run_eagerly(function, key, str(reason), args, kwargs)
    return result() if entry is None else _first_run(function, entry, args, kwargs)


def _run_eagerly(function, key, reason, args, kwargs):
    function.state.note_fallback(reason)
    if key is not None:
        _C.add_entry(function, _C.make_entry(key, None, [], [], None, Record(reason=reason)))
    return function.target(*args, **kwargs)


def _first_run(function, entry, args, kwargs):
    result = _C.run_entry(function, entry, args, kwargs)
    if function.state.options.cache == "constant values":
        _C.add_entry(function, entry)
    function.state.last = entry.record
    return result


def _compile(function, key, args, kwargs):
    """(entry, None), or (None, f) where the call ended in an exception and f() runs it eagerly."""
    start = time.perf_counter()
    target = function.target
    tracer = _C.Tracer()
    given = substitute(tracer, target, args, kwargs)
    ambient = _C.ambient_key()
    try:
        with _tracing.listening(tracer):
            result = target(*given.args, **given.kwargs)
    except Unsupported:
        raise
    except Exception as error:
        return None, lambda: _eager_after(function, error, args, kwargs)
    _check_undisturbed(given, ambient)
    outputs = Outputs(result, _is_old(args, kwargs))
    captured = _C.finish(tracer, outputs.tensors, outputs.tree)
    lifted, sources = _sources(given.sources, captured.lifted)
    _names.name_inputs(captured, target, args, kwargs)
    captured_at = time.perf_counter()
    compiled = _C.compile_captured(captured, function.state.options.verify)
    record = Record(
        traces=compiled.series,
        decisions=compiled.decisions,
        milliseconds={
            "capture": 1e3 * (captured_at - start),
            "compile": 1e3 * (time.perf_counter() - captured_at),
        },
    )
    if compiled.uses_offsets and not _C.depends_on_offsets(function):
        _C.depend_on_offsets(function)
        key = _C.call_key(function, args, kwargs)
    return _C.make_entry(key, compiled, sources, lifted, outputs.template, record), None
