"""The arguments of a call with trace tensors in place of the real ones."""

import collections
import dataclasses
import inspect

import torch

from fulgurite import _C, _containers


@dataclasses.dataclass
class Substituted:
    """Arguments for capture.

    args, kwargs: containers that hold tensors are copies, everything else is the caller's.
    sources: for each input of the trace, the index among the call's tensors.
    copies: (container, its items) for each copied list and dict, to see whether the user's code
        changed one in place.
    stand_ins: the trace tensors that are in place of the call's.
    """

    args: tuple
    kwargs: dict
    sources: list
    copies: list
    stand_ins: list

    def changed(self):
        """A copied container that no longer holds what it held, or None."""
        for container, items in self.copies:
            now = _items(container)
            if len(now) != len(items) or any(a is not b for a, b in zip(now, items, strict=True)):
                return container
        return None


def _items(container):
    return list(container.values() if isinstance(container, dict) else container)


def substitute(tracer, target, args, kwargs):
    """Replaces the tensors in `args` and `kwargs` by inputs of `tracer`, named as in `target`."""
    return _Walk(tracer, target, args, kwargs).run()


def is_tensor(value):
    return type(value) in (torch.Tensor, torch.nn.Parameter)


class _Walk:
    def __init__(self, tracer, target, args, kwargs):
        self.tracer, self.args, self.kwargs = tracer, args, kwargs
        self.names = top_names(target, args, kwargs)
        self.order = _C.argument_tensors(args, kwargs)
        self.inputs, self.copied, self.copies, self.sources = {}, {}, [], []

    def run(self):
        paths = {}
        for name, value in zip(self.names, [*self.args, *self.kwargs.values()], strict=True):
            self._find_names(value, name, paths)
        for index, tensor in enumerate(self.order):
            if id(tensor) not in self.inputs:
                name = paths.get(id(tensor), f"arg{index}")
                self.inputs[id(tensor)] = self.tracer.input(tensor, name)
                self.sources.append(index)
        args = tuple(self._copy(value) for value in self.args)
        kwargs = {key: self._copy(value) for key, value in self.kwargs.items()}
        return Substituted(args, kwargs, self.sources, self.copies, [*self.inputs.values()])

    def _find_names(self, value, name, paths):
        if is_tensor(value):
            if id(value) in paths:
                return
            paths[id(value)] = name
        children = vars(value).items() if is_tensor(value) else children_of(value)
        for key, child in children:
            self._find_names(child, f"{name}_{key}", paths)

    def _copy(self, value):
        if is_tensor(value):
            return self._stand_in(value)
        if id(value) in self.copied:
            return self.copied[id(value)]
        children = [child for _, child in children_of(value)]
        copies = [self._copy(child) for child in children]
        if all(a is b for a, b in zip(children, copies, strict=True)):
            return value
        made = _rebuild(value, copies)
        if isinstance(made, (list, dict)):
            self.copies.append((made, _items(made)))
        self.copied[id(value)] = made
        return made

    def _stand_in(self, tensor):
        """With the class and the attributes of the tensor."""
        traced = self.inputs[id(tensor)]
        if id(tensor) not in self.copied:
            self.copied[id(tensor)] = traced
            traced.__class__ = type(tensor)
            for name, value in vars(tensor).items():
                vars(traced)[name] = self._copy(value)
        return traced


_ITEM, _ATTRIBUTE, _DICT = range(3)


@dataclasses.dataclass
class Places:
    """The containers among the arguments and in them, and the dicts of those that have one.

    found: where they are, as the extension wants it; one container may be at several places.
    hidden: whether there are containers that cannot be found again.
    """

    containers: list = dataclasses.field(default_factory=list)
    found: list = dataclasses.field(default_factory=list)
    hidden: bool = False

    def number_of(self, value):
        """Which of the containers it is; None for another object."""
        return next((i for i, other in enumerate(self.containers) if other is value), None)


def container_places(args, kwargs):
    places = Places()
    todo = [(key, (), value) for key, value in [*enumerate(args), *kwargs.items()]]
    while todo:
        argument, steps, value = todo.pop()
        if is_tensor(value) or not (_is_container(value) or steps and steps[-1][0] == _DICT):
            continue
        number = places.number_of(value)
        places.hidden = places.hidden or None in steps
        if None not in steps:
            found = len(places.containers) if number is None else number
            places.found.append((argument, steps, found))
        if number is not None:
            continue
        places.containers.append(value)
        if _is_container(value):
            todo.extend((argument, (*steps, step), child) for step, child in _steps_into(value))
            if hasattr(value, "__dict__"):
                todo.append((argument, (*steps, (_DICT, None)), vars(value)))
    return places


def _steps_into(value):
    """(step, child) for the children that are not found through the instance dict alone."""
    children = children_of(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, dict):
        return [((_ATTRIBUTE, name), child) for name, child in children]
    count = len(children) - _containers.attribute_count(value)
    items, attributes = children[:count], children[count:]
    if isinstance(value, (tuple, list, collections.deque)):
        found = [((_ITEM, index), child) for index, (_, child) in enumerate(items)]
    elif isinstance(value, dict):
        found = [((_ITEM, name), child) for name, child in items]
    else:
        found = [(None, child) for _, child in items]
    kept = getattr(value, "__dict__", ())
    return found + [((_ATTRIBUTE, name), c) for name, c in attributes if name not in kept]


def _is_container(value):
    return isinstance(value, (tuple, list, dict)) or _containers.is_container(type(value))


def children_of(value):
    """(name, child) for a container, nothing for a leaf."""
    kind = type(value)
    if kind is tuple or kind is list:
        return list(enumerate(value))
    if kind is dict:
        return list(value.items())
    if not _is_container(value):
        return []
    opened = _containers.open(value)
    return list(zip(opened.names, opened.children, strict=True))


def _rebuild(value, children):
    if type(value) is tuple or type(value) is list:
        return type(value)(children)
    if type(value) is dict:
        return dict(zip(value, children, strict=True))
    return _containers.open(value).build(children)


def top_names(target, args, kwargs):
    """A name for each argument: the parameter that takes it."""
    called = target.forward if isinstance(target, torch.nn.Module) else target
    try:
        parameters = list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names, rest = [], None
    for index in range(len(args)):
        parameter = parameters[index] if rest is None and index < len(parameters) else rest
        if parameter is None or parameter.kind in (parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
            names.append(f"arg{index}")
        elif parameter.kind is parameter.VAR_POSITIONAL:
            rest = parameter
            names.append(f"{parameter.name}_{index - parameters.index(parameter)}")
        else:
            names.append(parameter.name)
    return names + list(kwargs)
