"""The options of `fulgurite.jit`, checked by name and value."""

import dataclasses
import difflib

from fulgurite._C import UserError
from fulgurite._executors import find_executor, get_all_executors
from fulgurite._transforms import as_transforms

_CHOICES = {
    "cache": ("constant values", "no caching"),
    "fallback": ("error", "eager"),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """What `jit` was asked to do.

    executors: names or records of executors, tried in this order for each call; empty: the default
        ones, which are "fused_cpu", "onednn" and "aten". "aten" alone gives eager's results bit for
        bit.
    transforms: passes of the user's own, from trace to trace: `Transform`s, which say where they
        run, or functions, which run before "Dead Code Elimination".
    cache: "constant values" keeps a compiled entry for each combination of tensor types and
        Python values; "no caching" compiles on every call.
    fallback: what a call that cannot be compiled does: "error" raises `Unsupported`, "eager" runs
        the user's function as it is and records why.
    entries: how many compiled entries are kept, the least recently used is dropped first.
    verify: check the invariants of every trace after every pass; those of a transform always are.
    store_fusion_inputs: keep copies of the tensors that each fused region was last run on, for
        `fulgurite.examine.get_fusion_repro`.
    pack_weights: whether weights may be copied into another layout, by which products of several
        rows take less time and more memory; False: "onednn" is left out.
    memory_budget: how much of the forward pass may be kept for the backward one. 1: all but what
        takes no time to compute again; 0: as little as can be, all else is computed again, products
        and attention too, but nothing that draws random numbers; in between, that share of the
        bytes by which the two differ. Below 1, no input may be written to between both passes.
    """

    executors: tuple = ()
    transforms: tuple = ()
    cache: str = "constant values"
    fallback: str = "error"
    entries: int = 256
    verify: bool = False
    store_fusion_inputs: bool = False
    pack_weights: bool = True
    memory_budget: float = 1.0


# Names of Thunder's for options.
_ALIASES = {"nv_store_fusion_inputs": "store_fusion_inputs"}


def read_options(given):
    """`Options` from keyword arguments; `UserError` for an unknown name or value."""
    known = [field.name for field in dataclasses.fields(Options)]
    given = {_ALIASES.get(name, name): value for name, value in given.items()}
    read = dict(given)
    for name, value in given.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise UserError(
                f"jit got an unknown option {name!r}{hint} The options are {', '.join(known)}."
            )
        if name in _CHOICES and value not in _CHOICES[name]:
            choices = " or ".join(map(repr, _CHOICES[name]))
            raise UserError(f"option {name!r} of jit is {choices}, got {value!r}")
    entries = given.get("entries", 1)
    if not isinstance(entries, int) or isinstance(entries, bool) or entries < 1:
        raise UserError(f"option 'entries' of jit is a positive int, got {entries!r}")
    budget = given.get("memory_budget", 1.0)
    if not isinstance(budget, (int, float)) or isinstance(budget, bool) or not 0 <= budget <= 1:
        raise UserError(f"option 'memory_budget' of jit is a number from 0 to 1, got {budget!r}")
    if "executors" in given:
        read["executors"] = tuple(map(find_executor, _sequence("executors", given["executors"])))
    if not given.get("pack_weights", True):
        chosen = read.get("executors") or get_all_executors()
        read["executors"] = tuple(e for e in chosen if e.name != "onednn")
    if "transforms" in given:
        read["transforms"] = as_transforms(_sequence("transforms", given["transforms"]))
    return Options(**read)


def _sequence(name, value):
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise UserError(f"option {name!r} of jit is a list, got {value!r}")
    return tuple(value)
