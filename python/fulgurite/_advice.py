"""What to do about a refusal that came from within a library of torch."""

import os
import re
import traceback

import torch

from fulgurite import _names
from fulgurite._C import Unsupported

_INSTEAD = "\n  instead: "
_TORCH = os.path.dirname(torch.__file__)


def advised(error, target, args, kwargs):
    """The refusal with better advice, where there is some; else as it is."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        place = os.path.relpath(frame.f_code.co_filename, _TORCH)
        for library, find in _ADVICE.items():
            if place.startswith(library) and (advice := find(frame, target, args, kwargs)):
                return Unsupported(str(error).partition(_INSTEAD)[0] + _INSTEAD + advice)
    for call, advice in _BY_CALL.items():
        if _INSTEAD not in str(error) and re.search(rf"calls {call}\(\)", str(error)):
            return Unsupported(str(error) + _INSTEAD + advice)
    return error


def _of_distribution(frame, target, args, kwargs):
    if frame.f_code.co_name not in ("__init__", "_validate_sample"):
        return ""
    kind = type(frame.f_locals.get("self")).__name__
    return (
        f"give {kind} validate_args=False, or call torch.distributions.Distribution."
        "set_default_validate_args(False): its checks look at the data"
    )


def _of_backward_hooks(frame, target, args, kwargs):
    module = frame.f_locals.get("self")
    if not isinstance(module, torch.nn.Module) or not _has_backward_hooks(module):
        return ""
    path = _names.module_paths(target, args, kwargs).get(id(module))
    return (
        f"remove the full backward hooks of {f'{path}, a ' if path else 'the '}"
        f"{type(module).__name__}; register a hook on a tensor that the compiled function returns, "
        "or compile the modules around this one"
    )


def _of_attention(frame, target, args, kwargs):
    if frame.f_code.co_name != "_sdpa_kernel":
        return ""
    return "enter sdpa_kernel around the call of the compiled function"


def _has_backward_hooks(module):
    return module._backward_hooks or module._backward_pre_hooks


_ADVICE = {
    os.path.join("nn", "attention", "__init__.py"): _of_attention,
    os.path.join("distributions", ""): _of_distribution,
    os.path.join("nn", "modules", "module.py"): _of_backward_hooks,
}

_BY_CALL = {
    r"torch\.\w*Tensor": "use torch.tensor(...) for data and torch.empty(...) for a shape",
    r"torch\.autograd\.variable\.Variable": "use the tensor itself: a Variable is a tensor",
    r"torch\._C\.Generator": "make the generator outside of the compiled function",
    r"torch\.Size\.numel": "use math.prod(...) of the shape, or tensor.numel()",
}
