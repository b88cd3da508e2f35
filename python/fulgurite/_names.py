"""Names for the tensors that a capture lifted: where the program keeps them."""

import inspect
import types

import torch


def name_inputs(captured, target, args, kwargs):
    """Gives each lifted input its kind, its path ("model.fc.weight") and its printed name."""
    places = _places(target, args, kwargs)
    unknown = 0
    for index, tensor in enumerate(captured.lifted):
        kind, path = places.get(id(tensor), ("constant", ""))
        if isinstance(tensor, torch.nn.Parameter):
            kind = "parameter"
        if path:
            name = f"{kind[0]}_{path.partition('.')[2] or path}"
        else:
            name, unknown = f"{kind[0]}_{unknown}", unknown + 1
        captured.name_lifted(index, kind, path, name)


def module_paths(target, args, kwargs):
    """{id(module): path} for the modules that can be found from the function and its arguments."""
    paths = {}
    for name, value in _roots(target, args, kwargs):
        if isinstance(value, torch.nn.Module):
            for path, module in value.named_modules(remove_duplicate=False):
                paths.setdefault(id(module), f"{name}.{path}" if path else name)
    return paths


def _places(target, args, kwargs):
    """{id(tensor): (kind, path)} for what can be found from the function and its arguments."""
    places = {}
    for name, value in _roots(target, args, kwargs):
        if isinstance(value, torch.nn.Module):
            for path, tensor in value.named_parameters(remove_duplicate=False):
                places.setdefault(id(tensor), ("parameter", f"{name}.{path}"))
            for path, tensor in value.named_buffers(remove_duplicate=False):
                places.setdefault(id(tensor), ("buffer", f"{name}.{path}"))
        elif isinstance(value, torch.Tensor):
            places.setdefault(id(value), ("constant", name))
    return places


def _roots(target, args, kwargs):
    """(name, object) for the objects that the function starts from."""
    owner = getattr(target, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        yield "self", owner
    if isinstance(target, torch.nn.Module):
        yield "self", target
    function = inspect.unwrap(getattr(target, "__func__", target))
    if isinstance(function, types.FunctionType):
        yield from _free_variables(function)
    for index, value in enumerate(args):
        yield f"arg{index}", value
    yield from kwargs.items()


def _free_variables(function):
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # an empty cell
            continue
    for name in code.co_names:
        if name in function.__globals__:
            yield name, function.__globals__[name]


def name_of(target):
    """What people call a function or a module."""
    return getattr(target, "__qualname__", type(target).__qualname__)
