"""Nodes that are not tried: their kind says that a capture cannot hold them."""

import operator
import re

import torch

_NESTS = re.compile(r"_(\w+)_(increment|decrement)_nesting")


def refused_kinds(graph):
    """{node: reason}."""
    found, depth = {}, 0
    for node in graph.nodes:
        if node.op not in ("call_function", "call_method", "call_module"):
            continue
        name = getattr(node.target, "__name__", "")
        nests = _NESTS.fullmatch(name)
        if nests:
            depth += 1 if nests[2] == "increment" else -1
        if nests or depth:
            found[node] = "it is part of a transform of torch.func, which stays in one piece"
        elif isinstance(node.target, torch._ops.HigherOrderOperator):
            found[node] = f"{node.target} is an operator on functions"
        elif node.target is operator.getitem and node.args[0] in found:
            found[node] = "it takes a part of the result of a node that is cut out"
    return found
