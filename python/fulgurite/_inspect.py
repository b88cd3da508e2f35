"""What a compiled function has done: its traces, hits, misses and reasons."""

import dataclasses

from fulgurite import _C
from fulgurite._C import UserError
from fulgurite._epilogue import epilogue
from fulgurite._module import function_of
from fulgurite._prologue import prologue

_NO_GRADIENTS = "nothing that it returns has a gradient"


class TraceSeries(list):
    """The traces of one compilation, as captured first; also indexed by the name of a pass.

    reason: why there are none, where there are none.
    """

    reason = ""

    def __getitem__(self, key):
        if not isinstance(key, str):
            return super().__getitem__(key)
        for trace in self:
            if key.lower() == (trace.provenance or "capture").lower():
                return trace
        names = ", ".join(repr(trace.provenance or "Capture") for trace in self)
        there_are = f"there are {names}" if self else f"there are none: {self.reason}"
        raise KeyError(f"no trace of the series was made by {key!r}; {there_are}")


@dataclasses.dataclass(frozen=True)
class CompileData:
    """entries: a Record for each compiled entry, the most recently used first.
    fallbacks: why calls ran eagerly. Of the entry that was compiled last: fusion_decisions, what
    the executors said of each call; guards, (kind, place, file, line) for all that it read of the
    state of Python; effects, (what, refusal, file, line) for what it changes."""

    entries: list
    fallbacks: list
    fusion_decisions: list
    guards: list
    effects: list


@dataclasses.dataclass(frozen=True)
class CompileStats:
    """Counts of calls, and milliseconds of the entry that was compiled last, by stage."""

    cache_hits: int
    cache_misses: int
    entries: int
    milliseconds: dict


def last_traces(compiled):
    """The series of the entry compiled last: as captured, after each pass, as executed."""
    return TraceSeries(last_record(compiled).traces)


def last_backward_traces(compiled):
    """The series of the backward pass of the entry compiled last: as split off from the joint
    trace (the one that "Grad transform" made, in last_traces), after each pass, as executed.

    Empty where torch's own autograd sees each call of the program: `reason` says why.
    """
    record = last_record(compiled)
    series = TraceSeries(record.backward_traces)
    if not series:
        series.reason = record.undifferentiated or _NO_GRADIENTS
    return series


def last_prologue_traces(compiled):
    """What the entry compiled last checks of a call, and how the inputs of its traces come out of
    the arguments: a program of one form, "Prologue".

    Its text shows the state as of now: an object that is gone has a word of its own.
    """
    return TraceSeries([prologue(entry_of(compiled), last_record(compiled))])


def last_epilogue_traces(compiled):
    """What the entry compiled last changes besides tensors, and the result that it builds: a
    program of one form, "Epilogue".

    Before it, where there are such: the views and writes of a program with a backward pass that
    torch's autograd sees ("Views and writes outside"), on its inputs and then its results."""
    record = last_record(compiled)
    return TraceSeries([*record.finish, epilogue(record)])


def cache_hits(compiled):
    """How many calls an entry served."""
    return _C.cache_hits(function_of(compiled))


def cache_misses(compiled):
    """How many calls no entry served."""
    return _C.cache_misses(function_of(compiled))


def compile_data(compiled):
    function = function_of(compiled)
    records = [entry.record for entry in _C.entries(function)]
    last = function.state.last
    return CompileData(
        records,
        list(function.state.fallbacks),
        fusion_decisions=last.decisions if last else [],
        guards=last.python_state.guards if last else [],
        effects=last.python_state.effects if last else [],
    )


def compile_stats(compiled):
    function = function_of(compiled)
    last = function.state.last
    return CompileStats(
        cache_hits=_C.cache_hits(function),
        cache_misses=_C.cache_misses(function),
        entries=len(_C.entries(function)),
        milliseconds=dict(last.milliseconds) if last else {},
    )


def last_recompile_reason(compiled):
    """In words: what the latest call that was compiled anew did not share with the entries."""
    return function_of(compiled).state.recompile_reason


def entries_of(function):
    """The entries of a compiled function, and the latest one that is not kept."""
    kept = [*_C.entries(function), function.state.not_kept]
    return [entry for entry in kept if entry is not None]


def entry_of(compiled, record=None):
    """The compiled entry of a Record; None: of the one compiled last."""
    wanted = last_record(compiled) if record is None else record
    for entry in entries_of(function_of(compiled)):
        if not entry.eager and entry.record is wanted:
            return entry
    which = "compiled last is" if record is None else "given is none of compile_data(f).entries, or"
    raise UserError(f"the entry {which} no longer kept: call the function again")


def last_record(compiled):
    """The Record of the entry compiled last; UserError where there is none."""
    function = function_of(compiled)
    if function.state.last is None:
        reasons = function.state.fallbacks
        why = f" Calls ran eagerly: {reasons[-1]}" if reasons else ""
        raise UserError(f"nothing has been compiled yet: call the function first.{why}")
    return function.state.last
