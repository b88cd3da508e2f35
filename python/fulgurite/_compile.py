"""From a call that no entry serves to a new entry: capture, passes, plan."""

import dataclasses
import time

from fulgurite import _C, _names, _tracing
from fulgurite._arguments import substitute
from fulgurite._C import Unsupported
from fulgurite._outputs import Outputs
from fulgurite._signature import describe_call, recompile_reason


@dataclasses.dataclass
class Record:
    """What is kept of one entry for the user to read.

    signature: {name: description} of the arguments and settings that it serves.
    traces: as captured first, as executed last; empty for an entry that runs eagerly.
    reason: why such calls run eagerly; "" for a compiled entry.
    milliseconds: of "capture" and "compile".
    """

    signature: dict
    traces: list = dataclasses.field(default_factory=list)
    decisions: list = dataclasses.field(default_factory=list)
    reason: str = ""
    milliseconds: dict = dataclasses.field(default_factory=dict)


def on_miss(function, key, declined, args, kwargs):
    """Called by the extension when no entry serves a call; returns the call's result."""
    state = function.state
    signature = describe_call(function.target, args, kwargs)
    state.recompile_reason = recompile_reason(_C.entries(function), signature)
    try:
        if declined:
            raise Unsupported(f"{declined}; fulgurite compiles plain strided torch.Tensor only")
        entry, result = _compile(function, key, signature, args, kwargs)
    except Unsupported as reason:
        if state.options.fallback == "error":
            raise
        return _run_eagerly(function, key, Record(signature, reason=str(reason)), args, kwargs)
    return result() if entry is None else _first_run(function, entry, args, kwargs)


def _run_eagerly(function, key, record, args, kwargs):
    function.state.note_fallback(record.reason)
    if key is not None:
        _C.add_entry(function, _C.make_entry(key, None, [], [], None, record))
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
        program = _capture(target, args, kwargs)
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
    )
    if _C.uses_offsets(compiled) and not _C.depends_on_offsets(function):
        _C.depend_on_offsets(function)
        key = _C.call_key(function, args, kwargs)
    lifted, sources = _sources(program.sources, program.captured.lifted)
    return _C.make_entry(key, compiled, sources, lifted, program.template, record), None


@dataclasses.dataclass
class _Program:
    """A captured call: its trace, for each argument input the index of the tensor among the
    call's, and how to build its result. Or `raised`, what the user's code raised."""

    captured: object = None
    sources: list = None
    template: tuple = None
    raised: str = ""


def _capture(target, args, kwargs):
    tracer = _C.Tracer()
    given = substitute(tracer, target, args, kwargs)
    ambient = _C.ambient_key()
    try:
        with _tracing.listening(tracer):
            result = target(*given.args, **given.kwargs)
    except Unsupported:
        raise
    except Exception as error:
        return _Program(raised=f"the capture raised {type(error).__name__}: {error}")
    _check_undisturbed(given, ambient, tracer)
    outputs = Outputs(result, _is_old(args, kwargs))
    captured = _C.finish(tracer, outputs.tensors, outputs.tree)
    _names.name_inputs(captured, target, args, kwargs)
    return _Program(captured, given.sources, outputs.template)


def _eager_after(function, raised, args, kwargs):
    """The captured call raised: eager raises its own error, with its own traceback.

    Where eager does not raise, the capture was at fault, and the result is eager's.
    """
    result = function.target(*args, **kwargs)
    function.state.note_fallback(raised)
    return result


def _check_undisturbed(given, ambient, tracer):
    if tracer.grads:
        raise Unsupported(
            "the function calls backward(), which leaves gradients in .grad; use "
            "torch.autograd.grad in it, or call backward() on what it returns"
        )
    container = given.changed()
    if container is not None:
        raise Unsupported(
            f"the function changes a {type(container).__name__} among its arguments that holds "
            "tensors; return the new container instead"
        )
    if _C.ambient_key() != ambient:
        raise Unsupported(
            "the function leaves grad mode, autocast, the default dtype or another setting of "
            "torch changed; use a with statement, or change it outside"
        )


def _is_old(args, kwargs):
    known = {id(value) for value in (*args, *kwargs.values())}
    return lambda value: id(value) in known


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
