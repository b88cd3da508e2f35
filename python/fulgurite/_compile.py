"""From a call that no entry serves to a new entry: capture, passes, plan."""

import dataclasses
import time
import warnings

import torch
from torch.nn.parameter import is_lazy

from fulgurite import _C, _names
from fulgurite._arguments import top_names
from fulgurite._C import Unsupported
from fulgurite._capture import SetsUp, capture
from fulgurite._fusions import remember_fusions
from fulgurite._signature import describe_call, recompile_reason
from fulgurite._sketch import sketch
from fulgurite.observe import log_compilation

_MOST_CHANGES = 4  # of the outputs for which gradients come in
_LAZY = "a lazy module makes its parameters in its first call; later calls are compiled"
_SETS_UP = "a model may register hooks in one call; later calls are compiled"


@dataclasses.dataclass
class Record:
    """What is kept of one entry for the user to read.

    signature: {name: description} of the arguments and settings that it serves.
    traces: as captured first, as executed last; empty for an entry that runs eagerly.
    backward_traces: of the backward pass, as split off first, as executed last; where there are
      none, undifferentiated says why.
    finish: of what torch's autograd sees after the forward pass of such a program; often nothing.
    saved_reasons: why each value that the backward pass takes besides gradients is kept.
    bytes_needed: of what the forward pass makes and the formulas of the backward one use.
    reason: why such calls run eagerly; "" for a compiled entry.
    milliseconds: of "capture" and "compile".
    replaced: what was compiled (traces, backward traces, ...) where replace_trace has put another
      program in its place, or None.
    python_state: guards on the state of Python, and effects on it.
    sketch, template, places: the call's arguments, its result and the containers among the
      arguments that it changes or gives back, for the printed prologue and epilogue.
    """

    signature: dict
    traces: list = dataclasses.field(default_factory=list)
    backward_traces: list = dataclasses.field(default_factory=list)
    finish: list = dataclasses.field(default_factory=list)
    saved_reasons: list = dataclasses.field(default_factory=list)
    bytes_needed: int = 0
    undifferentiated: str = ""
    decisions: list = dataclasses.field(default_factory=list)
    reason: str = ""
    milliseconds: dict = dataclasses.field(default_factory=dict)
    replaced: tuple | None = None
    python_state: object = None
    sketch: object = None
    template: tuple = ()
    places: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class ExpectedGradients:
    """given: by output, whether a gradient is expected to come in; empty where that is not known.
    autocast: that the backward pass ran under; 0: none.
    changes: how often that has been found to be otherwise."""

    given: list = dataclasses.field(default_factory=list)
    autocast: int = 0
    changes: int = 0


def on_miss(function, key, declined, args, kwargs):
    """Called by the extension when no entry serves a call; returns the call's result."""
    state = function.state
    if _has_lazy_parameters(function.target):
        state.note_fallback(_LAZY)
        return function.target(*args, **kwargs)
    signature = describe_call(function.target, args, kwargs)
    try:
        if declined:
            raise Unsupported(f"{declined}; fulgurite compiles plain strided torch.Tensor only")
        with state.lock:
            ready = _C.entry_for(function, args, kwargs)  # made by another thread meanwhile
            if ready is not None and not ready.eager:
                return _C.run_entry(function, ready, args, kwargs)
            state.recompile_reason = recompile_reason(_C.entries(function), signature)
            entry, raised = _compile(function, key, signature, args, kwargs)
            if entry is not None:
                return _first_run(function, entry, args, kwargs)
    except Unsupported as reason:
        if isinstance(reason, SetsUp) and not state.has_set_up:
            state.has_set_up = True
            state.note_fallback(f"{reason}\n  {_SETS_UP}")
            return function.target(*args, **kwargs)
        if state.options.fallback == "error":
            raise
        return _run_eagerly(function, key, Record(signature, reason=str(reason)), args, kwargs)
    return _eager_after(function, key, Record(signature, reason=raised), args, kwargs)


def _has_lazy_parameters(target):
    if not isinstance(target, torch.nn.Module):
        return False
    return any(map(is_lazy, target.parameters())) or any(map(is_lazy, target.buffers()))


def _serve_eagerly(function, key, record):
    """Later calls like this one run the user's function as it is."""
    if key is not None:
        nothing = [None, [], [], [], [], None, None, [], None]
        _C.add_entry(function, _C.make_entry(key, *nothing, record))


def _run_eagerly(function, key, record, args, kwargs):
    function.state.note_fallback(record.reason)
    _serve_eagerly(function, key, record)
    return function.target(*args, **kwargs)


def _first_run(function, entry, args, kwargs):
    result = _C.run_entry(function, entry, args, kwargs)
    if function.state.options.cache == "constant values":
        _C.add_entry(function, entry)
    else:
        function.state.not_kept = entry
    function.state.last = entry.record
    log_compilation(function, entry)
    return result


def _compile(function, key, signature, args, kwargs):
    """(entry, ""), or (None, reason) where the call ended in an exception of the program's own."""
    start = time.perf_counter()
    target = function.target
    replaced = _C.replaced_tensors(function)
    with _C.PlaceTracking(_names.module_paths(target, args, kwargs)):
        program = capture(target, args, kwargs)
    if program.raised:
        return None, program.raised
    _check_gradients(program, args, kwargs)
    captured_at = time.perf_counter()
    state, options = function.state, function.state.options
    _note_gradients(function)
    expected = state.gradients.get(len(program.captured.trace.outputs), ExpectedGradients())
    compiled = _C.compile_captured(
        program.captured,
        options.verify,
        options.executors,
        [transform.described() for transform in options.transforms],
        options.store_fusion_inputs,
        expected.changes <= _MOST_CHANGES,
        expected.given,
        expected.autocast,
        options.memory_budget,
        _names.name_of(target),
    )
    if warning := _C.missing_compiler_warning():
        warnings.warn(warning, stacklevel=2)
    series = compiled.series
    remember_fusions(series, _C.regions_of(compiled), state.replaced_texts)
    backward = compiled.backward
    remember_fusions(backward, _C.regions_of(compiled, True), state.replaced_texts)
    record = Record(
        signature,
        traces=series,
        backward_traces=backward,
        finish=compiled.finish,
        saved_reasons=compiled.saved,
        bytes_needed=compiled.bytes_needed,
        undifferentiated=compiled.undifferentiated,
        decisions=compiled.decisions,
        milliseconds={
            "capture": 1e3 * (captured_at - start),
            "compile": 1e3 * (time.perf_counter() - captured_at),
        },
        python_state=program.state,
    )
    uses_offsets = _C.uses_offsets(compiled) or program.reads_offsets
    if uses_offsets and not _C.depends_on_offsets(function):
        _C.depend_on_offsets(function)
        key = _C.call_key(function, args, kwargs)
    record.sketch = sketch(
        top_names(target, args, kwargs), args, kwargs, _C.depends_on_offsets(function)
    )
    record.template, record.places = program.template, program.places
    fetched = {} if uses_offsets else _fetched(program, replaced)
    lifted, sources = _sources(program, fetched)
    entry = _C.make_entry(
        key,
        compiled,
        sources,
        lifted,
        list(fetched.values()),
        program.reads,
        program.state,
        program.template,
        program.places,
        program.captured,
        record,
    )
    # How the arguments share memory among themselves is in the key.
    if program.captured.lifted and (
        program.captured.writes_inputs
        or program.copies_state
        or any(tensor.requires_grad for tensor in _C.argument_tensors(args, kwargs))
    ):
        _C.watch_sharing(function, entry, args, kwargs)
    return entry, ""


def _note_gradients(function):
    """For which outputs gradients came in, of entries whose backward pass was made for others."""
    known = function.state.gradients
    for entry in _C.entries(function):
        if entry.other_gradients is not None:
            given, call_by_call, autocast = entry.other_gradients
            outputs = len(entry.record.traces[0].outputs)
            before = known.get(outputs, ExpectedGradients())
            changes = _MOST_CHANGES + 1 if call_by_call else before.changes + 1
            known[outputs] = ExpectedGradients(given, autocast, changes)


def _eager_after(function, key, record, args, kwargs):
    """The captured call raised: eager raises its own error, with its own traceback.

    Where eager does not raise, the capture was at fault, which is an error like any other program
    that cannot be captured, or a fallback where those are allowed.
    """
    result = function.target(*args, **kwargs)
    if function.state.options.fallback == "error":
        raise Unsupported(
            f"{record.reason}\n  eager, which ran to raise this error by itself, did not raise it\n"
            '  instead: leave this part out of the captured function, or use fallback="eager"'
        )
    function.state.note_fallback(record.reason)
    _serve_eagerly(function, key, record)
    return result


def _check_gradients(program, args, kwargs):
    given = [t for t in _C.argument_tensors(args, kwargs) if t.is_leaf and t.grad is not None]
    gradients = {id(tensor.grad) for tensor in given}
    if any(id(tensor) in gradients for tensor in program.captured.lifted):
        raise Unsupported(
            "the function uses the .grad of an argument; give the gradient as an argument, too"
        )


def _fetched(program, replaced):
    """{id: (number of a guard, path within what is there, tensor)} of those that are another each
    time.

    That is what the program leaves a tensor of its own in (`self.state = f(self.state)`), or what
    was seen to be replaced between calls.
    """
    lifted = program.captured.lifted
    places = program.state.fetch(lifted, replaced, [*program.reads, *program.kept])
    return {id(lifted[i]): (*place, lifted[i]) for i, place in places.items()}


def _sources(program, fetched):
    """(tensors to hold on to, where each input of the trace comes from).

    A gradient is fetched from its parameter on each call: training loops replace it.
    """
    lifted, numbers = program.captured.lifted, {key: i for i, key in enumerate(fetched)}
    given = [t for t in program.state.gradient_owners if not _C.is_trace_tensor(t)]
    known = [t for t in lifted if t.requires_grad and t.is_leaf]
    owners = {id(t.grad): t for t in [*known, *given] if t.grad is not None}
    held, places = [], {}
    for tensor in [owners.get(id(t), t) for t in lifted if id(t) not in fetched]:
        if id(tensor) not in places:
            places[id(tensor)] = len(held)
            held.append(tensor)
    sources = [("argument", index) for index in program.sources]
    for tensor in lifted:
        owner = owners.get(id(tensor))
        if id(tensor) in fetched:
            sources.append(("state", numbers[id(tensor)]))
        elif owner is None:
            sources.append(("lifted", places[id(tensor)]))
        else:
            sources.append(("gradient", places[id(owner)]))
    return held, sources
