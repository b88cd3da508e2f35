"""Looking into what was compiled: the fusions of a trace, scripts that repeat one by itself, which
one is at fault, memory; and what torch.compile with the backend would compile of a program."""

import importlib

from fulgurite import _C
from fulgurite._bisect import Bisection, bisect
from fulgurite._C import UserError
from fulgurite._fusions import fusions_of
from fulgurite._memory import alloc_memory, measure
from fulgurite._repro import repro_script

__all__ = [
    "Bisection",
    "bisect",
    "examine",
    "get_alloc_memory",
    "get_fusion_repro",
    "get_fusions",
    "get_nvfuser_repro",
    "measure_memory",
]


def examine(target, /, *args, **kwargs):
    """A report on one call of a function or module through `fulgurite.dynamo`: for each graph which
    operators would be cut out and why, and why there are several graphs. str() of it is for people;
    `supported`: whether all of it would be one compiled graph. The call itself runs, uncompiled.
    """
    examined = importlib.import_module("fulgurite.dynamo._examine").examine  # on first use
    return examined(target, *args, **kwargs)


def get_fusions(trace):
    """[(name, fusion)] for the fused regions of a compiled trace, in order."""
    return list(fusions_of(_checked(trace)).items())


def get_fusion_repro(trace, name, *, values=False):
    """A Python script that runs one fusion of a compiled trace by itself: it makes inputs with the
    shapes, strides and dtypes of the last run, compares the fusion with torch's own operators, and
    times both. A C++ text that was put in place of the printed one is part of it.

    values: put the very values of the last run into the script, rather than random ones of the
        same range.

    Raises UserError unless the function was compiled with jit(..., store_fusion_inputs=True) and
    has been called.
    """
    fusions = fusions_of(_checked(trace))
    if name not in fusions:
        there_are = (
            ", ".join(fusions) or "none; see compile_data(f).fusion_decisions for the reasons"
        )
        raise UserError(f"the trace has no fusion {name!r}; its fusions are: {there_are}")
    return repro_script(trace, fusions[name], fusions[name].last_inputs, values=values)


get_nvfuser_repro = get_fusion_repro


def get_alloc_memory(trace):
    """(peak, {what: bytes}) of a trace as executed: the most bytes of tensors at once, and what its
    arguments, each call ("aten::mm t4") and each value freed ("del t3", negative) add to them.

    trace.memory() says more, and prints as a listing.
    """
    return alloc_memory(_checked(trace))


def measure_memory(function, *args, **kwargs):
    """Calls function(*args, **kwargs) and measures the memory of the tensors that it makes, as
    torch's allocators report it: an object with `peak`, the most bytes at once, and `result`, those
    that are left with what it returns. What existed before counts neither way.

    What other threads make, and what libraries such as oneDNN take for themselves, is not seen.
    Raises UserError where a profiler runs in this thread; none can be started in the function.
    """
    return measure(function, args, kwargs)


def _checked(trace):
    if not isinstance(trace, _C.Trace):
        raise UserError(
            f"expected a trace, such as fulgurite.last_traces(f)[-1], got a {type(trace).__name__}"
        )
    return trace
