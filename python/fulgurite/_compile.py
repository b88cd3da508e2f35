"""From a call that no entry serves to a new entry: capture, passes, plan."""

import dataclasses
import time

from fulgurite import _C, _names
from fulgurite._C import Unsupported
from fulgurite._capture import capture
from fulgurite._signature import describe_call, recompile_reason


@dataclasses.dataclass
class Record:
    """What is kept of one entry for the user to read.

    signature: {name: description} of the arguments and settings that it serves.
    traces: as captured first, as executed last; empty for an entry that runs eagerly.
    reason: why such calls run eagerly; "" for a compiled entry.
    milliseconds: of "capture" and "compile".
    python_state: guards on the state of Python, and effects on it.
    """

    signature: dict
    traces: list = dataclasses.field(default_factory=list)
    decisions: list = dataclasses.field(default_factory=list)
    reason: str = ""
    milliseconds: dict = dataclasses.field(default_factory=dict)
    python_state: object = None


def on_miss(function, key, declined, args, kwargs):
    """Called by the extension when no entry serves a call; returns the call's result."""
    state = function.state
    signature = describe_call(function.target, args, kwargs)
    state.recompile_reason = recompile_reason(_C.entries(function), signature)
    try:
        if declined:
            raise Unsupported(f"{declined}; fulgurite compiles plain strided torch.Tensor only")
        entry, result = _compile(function, key, signature, args, kwargs)
        if entry is not None:
            return _first_run(function, entry, args, kwargs)
    except Unsupported as reason:
        if state.options.fallback == "error":
            raise
        return _run_eagerly(function, key, Record(signature, reason=str(reason)), args, kwargs)
    return result()


def _run_eagerly(function, key, record, args, kwargs):
    function.state.note_fallback(record.reason)
    if key is not None:
        _C.add_entry(function, _C.make_entry(key, None, [], [], [], None, None, record))
    return function.target(*args, **kwargs)


def _first_run(function, entry, args, kwargs):
    result = _C.run_entry(function, entry, args, kwargs)
    if function.state.options.cache == "constant values":
        _C.add_entry(function, entry)
    function.state.last = entry.record
    return result


def _compile(function, key, signature, args, kwargs):
    """(entry, None), or (None, f) where the call ended in an exception and f() runs it eagerly."""
    start = time.perf_counter()
    target = function.target
    with _C.PlaceTracking(_names.module_paths(target, args, kwargs)):
        program = capture(target, args, kwargs)
    if program.raised:
        return None, lambda: _eager_after(function, program.raised, args, kwargs)
    captured_at = time.perf_counter()
    compiled = _C.compile_captured(program.captured, function.state.options.verify)
    record = Record(
        signature,
        traces=compiled.series,
        decisions=compiled.decisions,
        milliseconds={
            "capture": 1e3 * (captured_at - start),
            "compile": 1e3 * (time.perf_counter() - captured_at),
        },
        python_state=program.state,
    )
    if _C.uses_offsets(compiled) and not _C.depends_on_offsets(function):
        _C.depend_on_offsets(function)
        key = _C.call_key(function, args, kwargs)
    lifted, sources = _sources(program.sources, program.captured.lifted)
    entry = _C.make_entry(
        key, compiled, sources, lifted, program.reads, program.state, program.template, record
    )
    return entry, None


def _eager_after(function, raised, args, kwargs):
    """The captured call raised: eager raises its own error, with its own traceback.

    Where eager does not raise, the capture was at fault, and the result is eager's.
    """
    result = function.target(*args, **kwargs)
    function.state.note_fallback(raised)
    return result


def _sources(arguments, lifted):
    """(tensors to hold on to, where each input of the trace comes from).

    A gradient is fetched from its parameter on each call: training loops replace it.
    """
    owners = {id(t.grad): t for t in lifted if t.requires_grad and t.is_leaf and t.grad is not None}
    held = [tensor for tensor in lifted if id(tensor) not in owners]
    places = {id(tensor): index for index, tensor in enumerate(held)}
    sources = [("argument", index) for index in arguments]
    for tensor in lifted:
        owner = owners.get(id(tensor))
        if owner is None:
            sources.append(("lifted", places[id(tensor)]))
        else:
            sources.append(("gradient", places[id(owner)]))
    return held, sources
