"""What a compiled function has done: its traces, hits, misses and reasons."""

import dataclasses

from fulgurite import _C
from fulgurite._C import UserError
from fulgurite._module import function_of


class TraceSeries(list):
    """The traces of one compilation, as captured first; also indexed by the name of a pass."""

    def __getitem__(self, key):
        if not isinstance(key, str):
            return super().__getitem__(key)
        for trace in self:
            if key.lower() == (trace.provenance or "capture").lower():
                return trace
        names = ", ".join(repr(trace.provenance or "Capture") for trace in self)
        raise KeyError(f"no trace of the series was made by {key!r}; there are {names}")


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
    return TraceSeries(_last(compiled).traces)


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


def _last(compiled):
    function = function_of(compiled)
    if function.state.last is None:
        reasons = function.state.fallbacks
        why = f" Calls ran eagerly: {reasons[-1]}" if reasons else ""
        raise UserError(f"nothing has been compiled yet: call the function first.{why}")
    return function.state.last
