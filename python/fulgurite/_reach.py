"""What an object leads to."""

import gc
import operator
import sys
import types

import torch

from fulgurite import _C


def reachable(root, is_old):
    """The objects that can be got at from `root`, itself among them: not through modules and their
    classes, nor through objects for which is_old(object)."""
    todo, seen = [root], {}
    while todo:
        value = todo.pop()
        if value is None or id(value) in seen or _is_lasting(value) or is_old(value):
            continue
        seen[id(value)] = value
        yield value
        if not isinstance(value, torch.Tensor) and not _is_number(value):
            todo.extend(gc.get_referents(value))


def holds_traced(root, is_old):
    """Whether tensors or numbers of a capture can be got at."""
    return any(
        _is_number(value) or isinstance(value, torch.Tensor) and _C.is_trace_tensor(value)
        for value in reachable(root, is_old)
    )


def _is_number(value):
    return hasattr(type(value), "_fulgurite_stands_for")


def _is_lasting(value):
    if isinstance(value, (types.ModuleType, types.CodeType)):
        return True
    if type(value) is dict:
        return "__builtins__" in value or "__spec__" in value  # the names of a module
    return isinstance(value, type) and _is_global(value)


def _is_global(kind):
    try:
        return operator.attrgetter(kind.__qualname__)(sys.modules[kind.__module__]) is kind
    except (AttributeError, KeyError, TypeError):
        return not kind.__flags__ & (1 << 9)
