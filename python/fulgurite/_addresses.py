"""Addresses of memory that the program may keep.

What is written to by an address that was given away before is unseen by torch: a weight of which
that may be is never packed. Each function that gives one is wrapped once, at import.
"""

import functools

import torch
import torch.utils.dlpack

from fulgurite import _C


def install():
    for name in ("data_ptr", "numpy", "__array__", "__dlpack__"):
        _wrap(torch.Tensor, name, _C.give_address_away)
    for owner in (torch.utils.dlpack, torch):
        _wrap(owner, "to_dlpack", _C.give_address_away)
    _wrap(torch.UntypedStorage, "data_ptr", _of_storage)


def _of_storage(storage):
    if storage.device.type == "cpu":
        _C.give_address_away(torch.empty(0, dtype=torch.uint8).set_(storage))


def _wrap(owner, name, give_away):
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapped(of, *args, **kwargs):
        result = original(of, *args, **kwargs)
        give_away(of)
        return result

    setattr(owner, name, wrapped)
