"""The arguments of a call with trace tensors in place of the real ones."""

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
    """

    args: tuple
    kwargs: dict
    sources: list
    copies: list

    def changed(self):
        """A copied container that no longer holds what it held, or None."""
        for container, items in self.copies:
            now = list(container.values() if isinstance(container, dict) else container)
            if len(now) != len(items) or any(a is not b for a, b in zip(now, items, strict=True)):
                return container
        return None


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
        return Substituted(args, kwargs, self.sources, self.copies)

    def _find_names(self, value, name, paths):
        if is_tensor(value):
            paths.setdefault(id(value), name)
            return
        for key, child in children_of(value):
            self._find_names(child, f"{name}_{key}", paths)

    def _copy(self, value):
        if is_tensor(value):
            return self.inputs[id(value)]
        if id(value) in self.copied:
            return self.copied[id(value)]
        children = [child for _, child in children_of(value)]
        copies = [self._copy(child) for child in children]
        if all(a is b for a, b in zip(children, copies, strict=True)):
            return value
        made = _rebuild(value, copies)
        if isinstance(made, (list, dict)):
            self.copies.append((made, copies))
        self.copied[id(value)] = made
        return made


def containers_of(values):
    """Every container among the values and in them, with the dicts of those that have one."""
    found, todo = {}, list(values)
    while todo:
        value = todo.pop()
        if is_tensor(value) or id(value) in found or not _is_container(value):
            continue
        found[id(value)] = value
        todo.extend(child for _, child in children_of(value))
        if hasattr(value, "__dict__"):
            found[id(vars(value))] = vars(value)
    return list(found.values())


def _is_container(value):
    return isinstance(value, (tuple, list, dict)) or _containers.is_container(type(value))


def children_of(value):
    """(name, child) for a container, nothing for a leaf."""
    if isinstance(value, tuple):
        names = getattr(value, "_fields", range(len(value)))
        return list(zip(names, value, strict=True))
    if isinstance(value, list):
        return list(enumerate(value))
    if isinstance(value, dict):
        return list(value.items())
    if _containers.is_container(type(value)):
        children, context, _ = _containers.open(value)
        names = context if len(context or ()) == len(children) else range(len(children))
        return list(zip(names, children, strict=True))
    return []


def _rebuild(value, children):
    if type(value) is tuple or type(value) is list:
        return type(value)(children)
    if type(value) is dict:
        return dict(zip(value, children, strict=True))
    if isinstance(value, tuple):
        return _containers.build_named_tuple(type(value), children)
    return _containers.open(value)[2](children)


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
