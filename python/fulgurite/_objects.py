"""Objects beside containers that a call may give back: taken apart, and built again with others in
place of the tensors that they hold."""

import functools
import types
import weakref

from fulgurite import _containers
from fulgurite._containers import Opened


def open_object(value):
    """As `_containers.open`; None for an object that cannot be built from its parts."""
    kind = type(value)
    if kind in _OPENERS:
        return _OPENERS[kind](value)
    if isinstance(value, BaseException):
        return _open_exception(value)
    reduced = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ in _PLAIN_REDUCE
    if not reduced or _containers.native_base(kind) not in (object, types.SimpleNamespace):
        return None
    try:
        _containers.blank(kind)
    except TypeError:
        return None
    attributes = _containers.attributes_of(value)
    names = list(attributes)
    return Opened(list(attributes.values()), (), functools.partial(_make, kind, names), names)


def open_made(value):
    """(build, tuple of parts) of an object that a call makes and leaves in the state of Python.

    None where it is more than its parts: a function with its variables, an error.
    """
    kind = type(value)
    if kind is weakref.ref:
        plain = value.__callback__ is None and value() is not None
        return (_make_weak_reference, (value(),)) if plain else None
    if kind in _OPENERS or isinstance(value, BaseException):
        return None
    container = isinstance(value, (tuple, list, dict)) or _containers.is_container(kind)
    opened = _containers.open(value) if container else open_object(value)
    return None if opened is None else (opened.build, tuple(opened.children))


def _make_weak_reference(parts):
    return weakref.ref(parts[0])


_PLAIN_REDUCE = (object.__reduce__, types.SimpleNamespace.__reduce__)


def _make(kind, names, children):
    made = _containers.blank(kind)
    _containers.set_attributes(made, names, children)
    return made


def _open_exception(error):
    kind = type(error)
    simple = _containers.native_base(kind).__basicsize__ == BaseException.__basicsize__
    raised = error.__traceback__ or error.__cause__ or error.__context__
    if not simple or raised or kind.__reduce__ is not BaseException.__reduce__:
        return None
    attributes = _containers.attributes_of(error)
    names = list(attributes)
    children = [error.args, *attributes.values()]
    return Opened(children, (), functools.partial(_make_error, kind, names), ["args", *names])


def _make_error(kind, names, children):
    made = _make(kind, names, children[1:])
    made.args = children[0]
    return made


def _open_partial(value):
    attributes = _containers.attributes_of(value)
    names = [name for name in attributes if name in vars(value)]
    children = [value.func, value.args, value.keywords, *(attributes[name] for name in names)]
    build = functools.partial(_make_partial, names)
    return Opened(children, (), build, ["func", "args", "keywords", *names])


def _make_partial(names, children):
    function, args, keywords, *rest = children
    made = functools.partial(function, *args, **keywords)
    _containers.set_attributes(made, names, rest)
    return made


def _open_method(method):
    return Opened([method.__func__, method.__self__], (), _make_method, ["__func__", "__self__"])


def _make_method(children):
    return types.MethodType(*children)


def _open_native_method(method):
    build = functools.partial(_get_method, method.__name__)
    return Opened([method.__self__], (), build, ["__self__"])


def _get_method(name, children):
    return getattr(children[0], name)


def _open_cell(cell):
    return Opened(_contents(cell), (), _make_cell, ["cell_contents"] * len(_contents(cell)))


def _contents(cell):
    try:
        return [cell.cell_contents]
    except ValueError:  # an empty cell
        return []


def _make_cell(children):
    return types.CellType(*children)


def _open_function(function):
    names, cells = list(vars(function)), list(function.__closure__ or ())
    own = [
        i for i, cell in enumerate(cells) if any(c is function for c in _contents(cell))
    ]  # it calls itself
    for index in own:
        cells[index] = None
    children = [*cells, function.__defaults__, function.__kwdefaults__, *vars(function).values()]
    build = functools.partial(_make_function, *_unchanging_parts(function), len(cells), own, names)
    known = ["__defaults__", "__kwdefaults__"]
    return Opened(children, (), build, [*function.__code__.co_freevars, *known, *names])


def _unchanging_parts(function):
    kept = ("__qualname__", "__module__", "__doc__", "__annotations__")
    named = {name: getattr(function, name) for name in kept}
    return function.__code__, function.__globals__, function.__name__, named


def _make_function(code, namespace, name, named, cells, own, names, children):
    closure, (defaults, by_name, *rest) = children[:cells], children[cells:]
    for index in own:
        closure[index] = types.CellType()
    made = types.FunctionType(code, namespace, name, defaults, tuple(closure) or None)
    for index in own:
        closure[index].cell_contents = made
    made.__kwdefaults__ = by_name
    for key, value in named.items():
        setattr(made, key, value)
    vars(made).update(zip(names, rest, strict=True))
    return made


def _open_set(value):
    return Opened(list(value), (), type(value), [])


def _open_slice(value):
    children = [value.start, value.stop, value.step]
    return Opened(children, (), _make_slice, ["start", "stop", "step"])


def _make_slice(children):
    return slice(*children)


_OPENERS = {
    functools.partial: _open_partial,
    types.MethodType: _open_method,
    types.BuiltinMethodType: _open_native_method,
    types.MethodWrapperType: _open_native_method,
    types.CellType: _open_cell,
    types.FunctionType: _open_function,
    set: _open_set,
    frozenset: _open_set,
    slice: _open_slice,
}
