"""Python values as text that gives them back when it runs."""

import torch

from fulgurite import _C

_PLAIN = (
    type(None), bool, type(Ellipsis), type(NotImplemented), range, torch.dtype, torch.layout,
    torch.memory_format, torch.Size,
)  # fmt: skip


def spell(value):
    """The text, or "...  # Type" for what no text stands for."""
    return _text(value) or f"...  # {type(value).__name__}"


def spell_key(value):
    """A key of a dict; what no text stands for is shown as a string."""
    return _text(value) or _C.literal(repr(value))


def _text(value):
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, (float, complex, str, torch.device)):
        return _C.literal(value)
    if isinstance(value, int):
        return int.__repr__(value)  # of an IntEnum, the number
    if isinstance(value, bytes):
        return bytes.__repr__(value)
    if isinstance(value, slice):
        return _call("slice", (value.start, value.stop, value.step))
    if type(value) is tuple:
        return _call("", value, "," if len(value) == 1 else "")
    if value is torch.default_generator:
        return "torch.default_generator"
    return ""


def _call(name, values, last=""):
    texts = [_text(value) for value in values]
    return f"{name}({', '.join(texts)}{last})" if all(texts) else ""
