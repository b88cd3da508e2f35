"""The containers that tensors come and go in, beyond tuples, lists and dicts.

`open` takes one apart, its attributes with it; what it gives builds a new one of the same kind.
"""

import dataclasses
import functools
import types
import typing
import weakref

import torch
from torch.utils import _pytree

_HEAP_TYPE = 1 << 9  # in type.__flags__: made by a class statement, mostly
_ITEM = object()
# class -> (which of its bases, name) of its slots. A descriptor would keep the class alive.
_SLOTS = weakref.WeakKeyDictionary()


class Attributes:
    """Stands before the names of attributes in the context of what has items, too."""


class Opened(typing.NamedTuple):
    """A container taken apart.

    children: its items, then its attributes.
    context: all that is not in the children, compared by value; not the class.
    build: build(children) makes a new container of the same class, without running code of it.
    names: of the children.
    attributes: how many of the children are attributes, the last ones.
    """

    children: list
    context: object
    build: object
    names: list
    attributes: int = 0


def is_container(kind):
    """Whether instances of the class `kind` are opened by `open`."""
    if kind in _pytree.SUPPORTED_NODES or issubclass(kind, (list, dict)):
        return True
    plain = native_base(kind) is object and not issubclass(kind, torch.nn.Module)
    return plain and dataclasses.is_dataclass(kind)


def open(container):  # noqa: A001 - the word for it
    kind = type(container)
    if isinstance(container, dict):
        return _open_dict(container, kind)
    if isinstance(container, list):
        return _with_attributes(container, list.__iter__(container), _fill_list)
    if isinstance(container, tuple):
        return _open_tuple(container, kind)
    if kind in _pytree.SUPPORTED_NODES:
        node = _pytree.SUPPORTED_NODES[kind]
        children, context = node.flatten_fn(container)
        build = functools.partial(_unflatten, node.unflatten_fn, context)
        return Opened(list(children), _comparable(context), build, list(range(len(children))))
    return _open_dataclass(container, kind)


def attribute_count(container):
    """How many of its children are attributes beside its items."""
    plain = type(container) in (tuple, list, dict) or not (
        isinstance(container, tuple) or is_container(type(container))
    )
    return 0 if plain else open(container).attributes


def native_base(kind):
    """The class that says how instances lie in memory."""
    return next(base for base in kind.__mro__ if not base.__flags__ & _HEAP_TYPE)


def blank(kind):
    """An instance with nothing in it; TypeError where only the class itself can make one."""
    return native_base(kind).__new__(kind)


def attributes_of(value):
    """{name: value} of the instance dict and the slots."""
    found = dict(getattr(value, "__dict__", ()))
    for name, slot in _slots(type(value)).items():
        try:
            found[name] = slot.__get__(value)
        except AttributeError:  # an empty slot
            continue
    return found


def set_attributes(value, names, children):
    """Past any __setattr__."""
    slots = _slots(type(value))
    if names and not slots:
        vars(value).update(zip(names, children, strict=True))
        return
    for name, child in zip(names, children, strict=True):
        if name in slots:
            slots[name].__set__(value, child)
        else:
            value.__dict__[name] = child


def _slots(kind):
    """{name: descriptor} of what instances keep beside their dict."""
    if kind not in _SLOTS:
        _SLOTS[kind] = [
            (depth, name)
            for depth, base in reversed(list(enumerate(kind.__mro__)))
            for name, member in vars(base).items()
            if isinstance(member, types.MemberDescriptorType) and name != "__dict__"
        ]
    return {name: vars(kind.__mro__[depth])[name] for depth, name in _SLOTS[kind]}


def build_named_tuple(kind, items):
    """An instance of a tuple subclass from its items."""
    if hasattr(kind, "n_sequence_fields") or kind is torch.Size:
        return kind(items)
    return tuple.__new__(kind, items)


def _with_attributes(container, items, build, names=(), context=(), known=()):
    """build(kind, items): without attributes. known: names of attributes that it sets itself."""
    items, attributes = list(items), attributes_of(container)
    extra = [name for name in attributes if name not in known]
    names = [*(names or range(len(items))), *extra]
    return Opened(
        [*items, *(attributes[name] for name in extra)],
        (*context, Attributes, *extra) if extra else tuple(context),
        functools.partial(_build, build, type(container), len(items), extra),
        names,
        len(extra),
    )


def _build(build, kind, items, attributes, children):
    made = build(kind, children[:items])
    set_attributes(made, attributes, children[items:])
    return made


def _fill_list(kind, items):
    made = blank(kind)
    list.extend(made, items)
    return made


def _open_tuple(container, kind):
    names = getattr(container, "_fields", ())
    names = names if len(names) == len(container) else ()
    known = ()
    if hasattr(kind, "n_sequence_fields"):  # its fields are members of the class
        known = _slots(kind)
    return _with_attributes(container, container, build_named_tuple, names, names, known)


def _open_dict(container, kind):
    base = native_base(kind)
    keys = list(base.keys(container))
    items = [base.__getitem__(container, key) for key in keys]
    known = {}  # attributes that are items, too, and those that are as in the class
    for name, value in attributes_of(container).items():
        if base.__contains__(container, name) and base.__getitem__(container, name) is value:
            known[name] = _ITEM
        elif dataclasses.is_dataclass(kind) and getattr(kind, name, _ITEM) is value:
            known[name] = value
    build = functools.partial(_fill_dict, base, keys, known)
    return _with_attributes(container, items, build, keys, keys, known)


def _fill_dict(base, keys, known, kind, items):
    made = blank(kind)
    for key, item in zip(keys, items, strict=True):
        base.__setitem__(made, key, item)
    values = [base.__getitem__(made, k) if v is _ITEM else v for k, v in known.items()]
    set_attributes(made, known, values)
    return made


def _open_dataclass(container, kind):
    attributes = attributes_of(container)
    names = [field.name for field in dataclasses.fields(kind) if field.name in attributes]
    names += [name for name in attributes if name not in names]
    build = functools.partial(_fill_dataclass, kind, names)
    return Opened([attributes[name] for name in names], tuple(names), build, names)


def _fill_dataclass(kind, names, children):
    made = blank(kind)
    set_attributes(made, names, children)
    return made


def _comparable(context):
    return tuple(context) if isinstance(context, list) else context


def _unflatten(unflatten, context, children):
    return unflatten(list(children), context)
