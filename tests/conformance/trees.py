"""Nested containers of tensors: copies, structure, and which tensors share memory."""

from typing import Any

import torch
from torch.utils import _pytree as pytree


def is_plain(tensor: torch.Tensor) -> bool:
    """Strided, and no subclass: strides, storage and aliasing mean what they say."""
    return (
        tensor.layout == torch.strided
        and not tensor.is_nested
        and not tensor.is_quantized
        and type(tensor) in (torch.Tensor, torch.nn.Parameter)
    )


def tensors_of(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def shapes_of(tree: Any) -> list[tuple[int, ...]]:
    return [tuple(t.shape) for t in tensors_of(tree)]


def clone_tree(tree: Any) -> Any:
    """A deep copy of every tensor; strides, offsets, overlaps and aliasing are kept."""
    storages: dict[int, torch.UntypedStorage] = {}
    copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # the original is kept alive

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in copies:
            copies[id(leaf)] = leaf, _clone(leaf, storages)
        return copies[id(leaf)][1]

    return pytree.tree_map(copy, tree)


def _clone(tensor: torch.Tensor, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    if not is_plain(tensor):
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)
    raw = tensor.detach()
    storage = raw.untyped_storage()
    if storage._cdata not in storages:
        storages[storage._cdata] = storage.clone()
    new = torch.empty(0, dtype=raw.dtype, device=raw.device)
    new.set_(storages[storage._cdata], raw.storage_offset(), raw.size(), raw.stride())
    if raw.is_conj():
        new = torch._conj(new)
    if raw.is_neg():
        new = torch._neg_view(new)
    return new.data.requires_grad_(tensor.requires_grad)  # its version counter starts at 0


def structure(tree: Any) -> Any:
    """The containers, without pytree's own classes: named tuples keep their type's name."""
    if isinstance(tree, torch.Tensor):
        return "T"
    if isinstance(tree, dict):
        return "dict", tuple((str(k), structure(v)) for k, v in tree.items())
    if isinstance(tree, tuple | list):
        return type(tree).__name__, tuple(structure(v) for v in tree)
    return type(tree).__name__


def _memory(tensor: torch.Tensor) -> int | None:
    if not is_plain(tensor):
        return None
    storage = tensor.untyped_storage()
    return storage.data_ptr() if storage.nbytes() else None


def alias_signature(outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> list[str]:
    """For each output the first input, or earlier output, that it shares memory with."""
    first: dict[int, str] = {}
    for i, tensor in enumerate(inputs):
        if (memory := _memory(tensor)) is not None:
            first.setdefault(memory, f"input {i}")
    signature = []
    for i, tensor in enumerate(outputs):
        memory = _memory(tensor)
        # Without elements it is nobody's concern whether there is room for some.
        alone = "fresh" if tensor.numel() else "no memory"
        signature.append("no memory" if memory is None else first.get(memory, alone))
        if memory is not None:
            first.setdefault(memory, f"output {i}")
    return signature


def identity_signature(outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> list[int]:
    """For each output the first of inputs and earlier outputs that is the very same object."""
    known = [id(t) for t in inputs]
    signature = []
    for tensor in outputs:
        signature.append(known.index(id(tensor)) if id(tensor) in known else -1)
        known.append(id(tensor))
    return signature
