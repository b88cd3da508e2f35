"""What is kept of a call's arguments to print later how an entry checks them.

It follows the walk over the arguments in src/bindings/arguments.cpp.
"""

import dataclasses
import weakref

import torch

from fulgurite import _C, _containers
from fulgurite._arguments import is_tensor
from fulgurite.checks import settings

_BY_VALUE = (int, float, complex, str, bytes, bool, type(None))


@dataclasses.dataclass
class Node:
    """One value of a call. kind: "tensor", "constant", "object", "items", "dict" or "opened".

    of: the type of the tensor, the constant, a (weak) reference to the object, or the type of the
        container. children: nodes; those of a dict are (key, value) pairs. names: of the children.
    """

    kind: str
    of: object
    children: list = dataclasses.field(default_factory=list)
    names: list = dataclasses.field(default_factory=list)
    context: object = None  # of an opened container: a node; of a tensor: whether a Parameter
    offset: int | None = None


@dataclasses.dataclass
class Sketch:
    """settings: those of torch. names: of the arguments, positional first."""

    settings: dict
    positional: list
    keywords: dict
    names: list
    aliasing: list


def sketch(names, args, kwargs, with_offsets):
    """Taken when an entry is made. Holds neither tensors nor, where possible, other objects."""
    tensors, known = [], set()

    def read(value):
        if is_tensor(value):
            attributes = {} if id(value) in known else vars(value)
            tensors.append(value)
            known.add(id(value))
            offset = value.storage_offset() if with_offsets else None
            return Node(
                "tensor",
                _C.guarded_type(value),
                [read(child) for child in attributes.values()],
                list(attributes),
                isinstance(value, torch.nn.Parameter),
                offset,
            )
        kind = type(value)
        if kind in _BY_VALUE:
            return Node("constant", value)
        if isinstance(value, tuple) or kind is list:
            fields = getattr(value, "_fields", range(len(value)))
            return Node("items", kind, [read(child) for child in value], list(fields))
        if kind is dict:
            pairs = [(read(key), read(child)) for key, child in value.items()]
            return Node("dict", dict, pairs, [_word(key) for key in value])
        if _containers.is_container(kind):
            opened = _containers.open(value)
            nodes = [read(child) for child in opened.children]
            keys = [_word(name) for name in opened.names]
            return Node("opened", kind, nodes, keys, read(opened.context))
        return Node("object", _reference(value))

    positional = [read(value) for value in args]
    keywords = {name: read(value) for name, value in kwargs.items()}
    return Sketch(settings(), positional, keywords, names, _C.aliasing(tensors))


def _word(key):
    return key if isinstance(key, (str, int)) else "key"


def _reference(value):
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value
