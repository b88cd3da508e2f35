"""The words of printed prologues and epilogues: what an entry compares, and how it stores.

Each function does what the compiled entry does at that place, with the same code where there is
some. `absent` stands for a place that holds nothing.
"""

import functools

import torch

from fulgurite import _C, _containers


class _Absent:
    def __repr__(self):
        return "absent"


absent = _Absent()
aliasing = _C.aliasing


def settings():
    """The settings of torch that entries depend on."""
    return {
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "default dtype": torch.get_default_dtype(),
        "default device": str(torch.get_default_device()) if _C.default_device_word() else None,
        "autocast on cpu": _autocast("cpu"),
        "autocast on cuda": _autocast("cuda"),
        "deterministic": torch.get_deterministic_debug_mode(),
        "flash attention": torch.backends.cuda.flash_sdp_enabled(),
        "memory-efficient attention": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "math attention": torch.backends.cuda.math_sdp_enabled(),
        "mkldnn": torch.backends.mkldnn.enabled,
        "nnpack": torch._C._get_nnpack_enabled(),
        "cudnn": torch.backends.cudnn.enabled,
        "cudnn benchmark": torch.backends.cudnn.benchmark,
        "cudnn deterministic": torch.backends.cudnn.deterministic,
    }


def _autocast(device):
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None


def is_tensor(
    value,
    dtype,
    device,
    shape,
    strides,
    requires_grad=False,
    keys=None,
    offset=None,
    parameter=False,
    attributes=False,
):
    """Whether `value` is a tensor of that type. keys: its dispatch keys where they are not those of
    an ordinary tensor of the device; offset: its place in its storage, where that counts;
    parameter: whether it is a torch.nn.Parameter; attributes: whether the program has set
    attributes on it, None where that does not count."""
    plain = type(value) is (torch.nn.Parameter if parameter else torch.Tensor)
    if not plain or attributes not in (None, bool(vars(value))):
        return False
    if value.layout != torch.strided or value.is_nested or value.is_quantized:
        return False
    wanted = (dtype, device, shape, strides, requires_grad, keys or ordinary_keys(device))
    placed = offset is None or value.storage_offset() == offset
    return placed and _C.guarded_type(value) == wanted


@functools.cache
def ordinary_keys(device):
    """The dispatch keys of a plain tensor on the device."""
    with torch.inference_mode(False):
        return _C.guarded_type(torch.empty(0, device=device))[-1]


def same(a, b):
    """The same object, or equal constants of the same type: 1 is not True, nor 0.0 -0.0."""
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and all(map(same, a, b))
    return a is b or _C.same_constant(a, b)


def same_all(found, wanted):
    """Whether a container, as `contents` gives it, holds what is wanted."""
    if isinstance(found, frozenset):
        return len(found) == len(wanted) and all(any(same(a, b) for a in found) for b in wanted)
    return type(found) is tuple and len(found) == len(wanted) and all(map(same, found, wanted))


def opened(container):
    """(context, children) of a dataclass, a ModelOutput, or any other container."""
    taken_apart = _containers.open(container)
    return taken_apart.context, taken_apart.children


def has_data(tensor, data):
    """Whether the elements of a tensor are these bytes."""
    flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return flat.view(-1).view(torch.uint8).numpy().tobytes() == data if flat.numel() else not data


def _value(kind):
    def value(container, key=None):
        return _C.state_value(kind, container, key, absent)

    return value


def _storing(kind):
    def storing(container, key, value):
        if value is absent:
            _C.state_remove(kind, container, key)
        else:
            _C.state_store(kind, container, key, value)

    return storing


# What a place holds: value_of["key"](container, key).
KINDS = {
    "key": "key",
    "contents": "contents",
    "length": "length",
    "member": "has_member",
    "item": "item",
    "class attribute": "class_attribute",
    "class entry": "class_entry",
    "special methods": "special_methods",
    "bases": "bases",
    "class": "class_of",
    "instance dict": "instance_dict",
    "part": "part",
    "function": "code_and_defaults",
    "variable": "variable",
    "slot": "slot",
    "context variable": "context_variable",
    "referent": "referent",
    "buffer": "buffer",
    "answer": "answer",
    "registrations": "registrations",
    "appended": "length",
}
STORES = {
    "key": "set_key",
    "contents": "set_contents",
    "member": "set_member",
    "item": "set_item",
    "class entry": "set_class_entry",
    "variable": "set_variable",
    "slot": "set_slot",
    "context variable": "set_context_variable",
    "buffer": "set_buffer",
    "appended": "append",
}
globals().update({name: _value(kind) for kind, name in KINDS.items() if kind != "appended"})
globals().update({name: _storing(kind) for kind, name in STORES.items()})
