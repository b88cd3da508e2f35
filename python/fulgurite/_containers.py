"""The containers that tensors come and go in, beyond tuples, lists and dicts.

`open` takes one apart: (children, context, build), where `context` is all that is not in the
children and `build(children)` makes a new container of the same kind.
"""

import collections
import copy
import dataclasses
import functools

import torch
from torch.utils import _pytree

from fulgurite._spelling import spell_key


def is_container(kind):
    """Whether instances of the class `kind` are opened by `open`."""
    return (
        kind in _pytree.SUPPORTED_NODES
        or issubclass(kind, (list, dict))
        or dataclasses.is_dataclass(kind)
    )


def open(container):  # noqa: A001 - the word for it
    kind = type(container)
    if isinstance(container, dict):
        keys = list(container)
        build = functools.partial(_build_dict, container, keys)
        return [container[key] for key in keys], tuple(keys), build
    if isinstance(container, list):
        return list(container), (), functools.partial(_build_list, container)
    if kind in _pytree.SUPPORTED_NODES:
        node = _pytree.SUPPORTED_NODES[kind]
        children, context = node.flatten_fn(container)
        build = functools.partial(_unflatten, node.unflatten_fn, context)
        return list(children), _comparable(context), build
    names = [field.name for field in dataclasses.fields(kind)]
    present = [name for name in names if hasattr(container, name)]
    build = functools.partial(_build_dataclass, container, present)
    return [getattr(container, name) for name in present], tuple(present), build


def keys_of(container):
    """The printed names of the children of `container`."""
    if isinstance(container, dict):
        return [spell_key(key) for key in container]
    if dataclasses.is_dataclass(container):
        return [repr(field.name) for field in dataclasses.fields(container)]
    return []


def build_named_tuple(kind, items):
    """An instance of a tuple subclass from its items."""
    if hasattr(kind, "n_sequence_fields") or kind is torch.Size:
        return kind(items)
    return tuple.__new__(kind, items)


def _comparable(context):
    return tuple(context) if isinstance(context, list) else context


def _unflatten(unflatten, context, children):
    return unflatten(list(children), context)


def _build_dict(like, keys, children):
    if isinstance(like, collections.Counter):
        return type(like)(dict(zip(keys, children, strict=True)))
    made = copy.copy(like)
    for key, child in zip(keys, children, strict=True):
        made[key] = child
    return made


def _build_list(like, children):
    made = copy.copy(like)
    made[:] = children
    return made


def _build_dataclass(like, names, children):
    made = copy.copy(like)
    for name, child in zip(names, children, strict=True):
        object.__setattr__(made, name, child)
    return made
