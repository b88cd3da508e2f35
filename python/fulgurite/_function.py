"""Compiled functions: the vectorcall object and what is kept of it besides its entries."""

import contextlib
import copyreg
import dataclasses
import functools
import operator
import sys
import threading
import types

import torch
from torch.compiler import is_dynamo_compiling

from fulgurite import _C
from fulgurite._compile import on_miss
from fulgurite._fusions import ReplacedTexts
from fulgurite._options import Options

_KEPT_REASONS = 100


@dataclasses.dataclass
class State:
    """One compiled function.

    last: the Record of the entry that was compiled last, or None.
    recompile_reason: in words, why the latest compilation was needed.
    fallbacks: why calls ran eagerly, the latest last.
    has_set_up: whether a call ran eagerly because it registered hooks.
    gradients: ExpectedGradients by the number of a program's outputs.
    replaced_texts: C++ texts of fusions that the user gave.
    not_kept: the entry that was compiled last, with the option cache="no caching".
    log_scope: where its records stand in torch's structured log; None before the first.
    specialisations: how many of its entries were logged.
    lock: held while an entry is made: a capture changes the state of Python, and undoes it.
    """

    options: Options
    last: object = None
    recompile_reason: str = ""
    fallbacks: list = dataclasses.field(default_factory=list)
    has_set_up: bool = False
    gradients: dict = dataclasses.field(default_factory=dict)
    replaced_texts: ReplacedTexts = dataclasses.field(default_factory=ReplacedTexts)
    not_kept: object = None
    log_scope: object = None
    specialisations: int = 0
    lock: object = dataclasses.field(default_factory=threading.RLock)

    def note_fallback(self, reason):
        self.fallbacks.append(reason)
        del self.fallbacks[:-_KEPT_REASONS]


def compile_function(target, options):
    """The vectorcall object for `target`."""
    function = _C.Function(target, on_miss, options.entries)
    if not isinstance(target, torch.nn.Module):
        functools.update_wrapper(function, target)
    function.state = State(options)
    return function


def _reduce(function):
    # As a function is: by its name, where it is found under that name.
    place = sys.modules.get(getattr(function, "__module__", None))
    name = getattr(function, "__qualname__", "")
    with contextlib.suppress(AttributeError, ValueError):
        if place is not None and operator.attrgetter(name)(place) is function:
            return name
    return compile_function, (function.target, function.state.options)


def _call(self, *args, **kwargs):
    return self.target(*args, **kwargs) if is_dynamo_compiling() else self(*args, **kwargs)


def _get(self, instance, owner=None):
    if instance is None or not isinstance(self.target, types.FunctionType):
        return self
    if is_dynamo_compiling():
        return self.target.__get__(instance, owner)
    return types.MethodType(self, instance)


copyreg.pickle(_C.Function, _reduce)
# torch.compile reads Python code: it sees the user's code in place of the compiled function.
_C.show_method("__call__", _call)
_C.show_method("__get__", _get)
