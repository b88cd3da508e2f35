"""Modules with other linear layers."""

import copy

import torch

from fulgurite._C import UserError


def with_linears(module, targets, make, who, memo=None):
    """A copy of `module` that shares its tensors, but for those in `memo`, with `make(layer)` in
    the place of each chosen nn.Linear. One layer that is used twice becomes one.

    targets: None for all of them, or ends of their names, or a function of name and layer.
    """
    if not isinstance(module, torch.nn.Module):
        raise UserError(f"{who} takes a module, got {module!r}")
    tensors = [*module.parameters(), *module.buffers()]
    copied = copy.deepcopy(module, {**{id(t): t for t in tensors}, **(memo or {})})
    chosen = {}  # id of a layer -> what takes its place
    for name, layer in copied.named_modules():
        if type(layer) is torch.nn.Linear and _is_target(name, layer, targets, who):
            if layer._forward_hooks or layer._forward_pre_hooks:
                raise UserError(f"{who}: the layer {name!r} has hooks, which would be lost")
            chosen[id(layer)] = make(layer).train(layer.training)
    if not chosen:
        raise UserError(f"{who} found no nn.Linear to change" + _among(copied, targets))
    for parent in list(copied.modules()):
        for name, child in parent._modules.items():
            parent._modules[name] = chosen.get(id(child), child)
    return chosen.get(id(copied), copied)


def _is_target(name, layer, targets, who):
    if targets is None:
        return True
    if callable(targets):
        return bool(targets(name, layer))
    if isinstance(targets, str) or not all(isinstance(target, str) for target in targets):
        raise UserError(f"{who}: targets is a list of names or a function, got {targets!r}")
    return any(name == target or name.endswith(f".{target}") for target in targets)


def _among(module, targets):
    if targets is None:
        return ""
    names = [n for n, m in module.named_modules() if type(m) is torch.nn.Linear]
    return f" among {', '.join(names[:20]) or 'none'}"
