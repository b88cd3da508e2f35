"""What a call looks like in words: to say why it was compiled anew."""

import torch

from fulgurite import _C
from fulgurite._arguments import children_of, is_tensor, top_names


def describe_call(target, args, kwargs):
    """{name: description} of the arguments and of the settings of torch."""
    described = dict(_settings())
    names = top_names(target, args, kwargs)
    for name, value in zip(names, [*args, *kwargs.values()], strict=True):
        _describe(value, name, described, set())
    return described


def recompile_reason(entries, signature):
    """What `signature` does not share with the entry that is closest to it."""
    if not entries:
        return "the first call"
    differences = [
        _differences(entry.record.signature, signature) or _changed(entry) for entry in entries
    ]
    return "; ".join(min(differences, key=len))


def _changed(entry):
    return [entry.changed() or "the entry was dropped"]


def _differences(before, now):
    found = []
    for name in {**before, **now}:
        if name not in now:
            found.append(f"{name} is no longer given (was {before[name]})")
        elif name not in before:
            found.append(f"{name} is new: {now[name]}")
        elif before[name] != now[name]:
            found.append(f"{name} was {before[name]}, is now {now[name]}")
    return found


def _describe(value, name, described, open_containers):
    if is_tensor(value):
        described[name] = describe_tensor(value)
        for key, child in vars(value).items() if id(value) not in open_containers else ():
            _describe(child, f"{name}.{key}", described, {*open_containers, id(value)})
    elif id(value) not in open_containers and (children := children_of(value)):
        described[name] = f"a {type(value).__name__} of {len(children)}"
        for key, child in children:
            _describe(child, f"{name}[{key!r}]", described, {*open_containers, id(value)})
    elif isinstance(value, (int, float, complex, str, bytes, type(None))):
        described[name] = repr(value)
    else:
        described[name] = f"the {type(value).__name__} at {id(value):#x}"


def describe_tensor(tensor):
    """ "float32[2, 3] on cpu", with strides where not contiguous and requires_grad where set."""
    if tensor.is_nested:
        return f"{tensor.dtype} nested tensor"
    if tensor.layout != torch.strided:
        return f"{tensor.dtype} tensor of layout {tensor.layout}"
    text = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)} on {tensor.device}"
    if not tensor.is_contiguous():
        text += f" with strides {list(tensor.stride())}"
    if not tensor.requires_grad:
        return text
    text += " that requires grad" + ("" if tensor.is_leaf else " and is no leaf")
    return text + (" and has a gradient" if tensor.is_leaf and tensor.grad is not None else "")


def _settings():
    yield "grad mode", "on" if torch.is_grad_enabled() else "off"
    yield "inference mode", "on" if torch.is_inference_mode_enabled() else "off"
    yield "the default dtype", str(torch.get_default_dtype())
    on_device = torch.get_default_device() if _C.default_device_word() else "none"
    yield "the default device", str(on_device)
    on = torch.is_autocast_enabled("cpu")
    yield "autocast", f"on with {torch.get_autocast_dtype('cpu')}" if on else "off"
