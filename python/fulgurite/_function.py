"""Compiled functions: the vectorcall object and what is kept of it besides its entries."""

import copyreg
import dataclasses
import functools

import torch

from fulgurite import _C
from fulgurite._compile import on_miss
from fulgurite._options import Options

_KEPT_REASONS = 100


@dataclasses.dataclass
class State:
    """One compiled function.

    last: the Record of the entry that was compiled last, or None.
    recompile_reason: in words, why the latest compilation was needed.
    fallbacks: why calls ran eagerly, the latest last.
    """

    options: Options
    last: object = None
    recompile_reason: str = ""
    fallbacks: list = dataclasses.field(default_factory=list)

    def note_fallback(self, reason):
        self.fallbacks.append(reason)
        del self.fallbacks[:-_KEPT_REASONS]


def compile_function(target, options):
    """The vectorcall object for `target`."""
    function = _C.Function(target, on_miss, options.entries)
    function.state = State(options)
    if not isinstance(target, torch.nn.Module):
        functools.update_wrapper(function, target)
    return function


def _reduce(function):
    return compile_function, (function.target, function.state.options)


copyreg.pickle(_C.Function, _reduce)
