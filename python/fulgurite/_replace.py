"""Another program in place of the one that a compiled function runs."""

from fulgurite import _C
from fulgurite._C import Trace, UserError
from fulgurite._fusions import remember_fusions
from fulgurite._inspect import entry_of
from fulgurite._module import function_of
from fulgurite._transforms import with_text

_OF_A_PROGRAM = (
    "traces",
    "backward_traces",
    "finish",
    "saved_reasons",
    "bytes_needed",
    "undifferentiated",
    "decisions",
)
_TYPE = ("dtype", "device", "shape", "strides", "requires_grad")


def replace_trace(compiled, program, *, entry=None):
    """Runs `program` in place of a compiled entry's traces, from the next call on.

    program: the text of one of the traces in last_traces(compiled), edited (see Trace.text), or a
        Trace. It takes the same inputs, and returns as many tensors of the same types. The passes
        run on it, and executors are asked anew; transforms of the user's are not run again. Text is
        executed: use it where you trust it.
    entry: one of compile_data(compiled).entries; None: the one that was compiled last. Others, and
        those made later for new shapes, are as they were.

    The prologue, which decides which calls the entry serves, and the epilogue stay as they are.
    Raises UserError, with nothing changed, for a program that does not fit.
    """
    function = function_of(compiled)
    place = entry_of(compiled, entry)
    record, options = place.record, function.state.options
    if options.cache == "no caching":
        raise UserError('cache="no caching" compiles each call anew: there is nothing to replace')
    original = (record.replaced or _programs_of(record))[0]
    trace = _as_trace(program, original[0])
    try:
        _check_types("input", original[0].inputs, trace.inputs)
        _check_types("output", original[0].outputs, trace.outputs)
    except UserError as error:
        if not record.backward_traces:
            raise
        raise UserError(
            f"{error}. A trace after the first is one half of the program, or has its gradient in "
            "it: edit the captured one, last_traces(compiled)[0]"
        ) from None
    _check_writes(place, original[0], trace)
    with function.state.lock:
        made = _C.compile_trace(trace, True, options.executors, options.store_fusion_inputs)
        if _C.uses_offsets(made) and not _C.depends_on_offsets(function):
            raise UserError(
                "the new program uses where an input lies in its storage (as_strided), which the "
                "prologue of this entry does not look at"
            )
        record.replaced = record.replaced or _programs_of(record)
        place.replace(made)
        record.traces, record.backward_traces = made.series, made.backward
        record.undifferentiated, record.decisions = made.undifferentiated, made.decisions
        record.finish = made.finish
        record.saved_reasons, record.bytes_needed = made.saved, made.bytes_needed
        texts = function.state.replaced_texts
        remember_fusions(record.traces, _C.regions_of(made), texts)
        remember_fusions(record.backward_traces, _C.regions_of(made, True), texts)


def restore_trace(compiled, *, entry=None):
    """Runs what was compiled for the entry again; see replace_trace."""
    place = entry_of(compiled, entry)
    record = place.record
    with function_of(compiled).state.lock:
        if record.replaced is not None:
            place.replace(None)
            for field, before in zip(_OF_A_PROGRAM, record.replaced, strict=True):
                setattr(record, field, before)
            record.replaced = None


def _programs_of(record):
    return tuple(getattr(record, field) for field in _OF_A_PROGRAM)


def _as_trace(program, original):
    if isinstance(program, str):
        return with_text(original, program)
    if isinstance(program, Trace):
        return program
    raise UserError(
        f"the new program is the edited text of a trace, or a Trace, got a {type(program).__name__}"
    )


def _check_writes(place, before, now):
    """A write to one tensor is seen through another in the same memory."""
    lifted = any(kind != "argument" for kind, _ in place.sources)
    if lifted and _C.writes_inputs(now) and not _C.writes_inputs(before):
        raise UserError(
            "the new program writes to an input, and what was compiled does not: the prologue of "
            "this entry does not look at whether arguments share memory with the tensors that the "
            "function has from elsewhere. Write to a clone, or write in the function itself"
        )


def _check_types(what, before, now):
    if len(before) != len(now):
        raise UserError(f"the new program has {len(now)} {what}s, and the entry {len(before)}")
    for number, (old, new) in enumerate(zip(before, now, strict=True)):
        differ = [field for field in _TYPE if getattr(old, field) != getattr(new, field)]
        if differ:
            raise UserError(
                f"{what} {number} of the new program is {new}, and has to be {old}: the "
                f"{' and the '.join(differ)} differ{'s' * (len(differ) == 1)}"
            )
