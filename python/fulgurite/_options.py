"""The options of `fulgurite.jit`, checked by name and value."""

import dataclasses
import difflib

from fulgurite._C import UserError

_CHOICES = {
    "cache": ("constant values", "no caching"),
    "fallback": ("error", "eager"),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """What `jit` was asked to do.

    executors: names or records of executors, tried in this order; empty: the default ones.
    transforms: passes of the user's own.
    cache: "constant values" keeps a compiled entry for each combination of tensor types and
        Python values; "no caching" compiles on every call.
    fallback: what a call that cannot be compiled does: "error" raises `Unsupported`, "eager" runs
        the user's function as it is and records why.
    entries: how many compiled entries are kept, the least recently used is dropped first.
    verify: check the invariants of every trace after every pass.
    """

    executors: tuple = ()
    transforms: tuple = ()
    cache: str = "constant values"
    fallback: str = "error"
    entries: int = 256
    verify: bool = False


def read_options(given):
    """`Options` from keyword arguments; `UserError` for an unknown name or value."""
    known = [field.name for field in dataclasses.fields(Options)]
    for name, value in given.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UserError(
                f"jit got an unknown option {name!r}{hint} The options are {', '.join(known)}."
            )
        if name in _CHOICES and value not in _CHOICES[name]:
            choices = " or ".join(map(repr, _CHOICES[name]))
            raise UserError(f"option {name!r} of jit is {choices}, got {value!r}")
        if name in ("executors", "transforms"):
            given = {**given, name: _sequence(name, value)}
            if given[name]:
                raise UserError(
                    f"option {name!r} of jit is not available in this version; leave it out"
                )
    if not isinstance(given.get("entries", 1), int) or given.get("entries", 1) < 1:
        raise UserError(f"option 'entries' of jit is a positive int, got {given['entries']!r}")
    return Options(**given)


def _sequence(name, value):
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise UserError(f"option {name!r} of jit is a list, got {value!r}")
    return tuple(value)
