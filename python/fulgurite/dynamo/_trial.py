"""A trial capture of a graph, node by node: which nodes cannot be captured, and why.

No operator computes anything in it, and no input is changed.
"""

import torch
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from fulgurite import _C, _numbers, _tracing
from fulgurite._arguments import substitute

_ENTERS, _EXITS = torch.amp._enter_autocast, torch.amp._exit_autocast
_GRAD_MODE = torch._C._set_grad_enabled
CONTEXTS = (_ENTERS, _EXITS, _GRAD_MODE)
_UNBACKED = 7  # stands for a size that depends on data


def refused_nodes(module, inputs, known):
    """{node: reason} of the nodes of the graph that a capture refuses.

    inputs: a tensor or an int, concrete or symbolic, for each placeholder.
    known: nodes that are not to be tried; their results are made up from Dynamo's.
    """
    nodes = list(module.graph.nodes)
    given = [node for node in nodes if node.op == "placeholder"]
    values = dict(zip(given, map(_concrete, inputs), strict=True))
    refused, start = {}, 0
    while start < len(nodes):
        start = _try_from(module, nodes, start, values, known, refused)
    return refused


def _try_from(module, nodes, start, values, known, refused):
    """Captures nodes[start:] up to one that is refused; returns where to go on."""
    tried = {node for node in nodes[start:] if _is_call(node) and node not in known}
    outside = [
        node
        for node in nodes
        if node not in tried and node.op not in ("get_attr", "output") and tried & set(node.users)
    ]
    real = [values[n] if n in values else _made_up(n.meta.get("example_value")) for n in outside]
    tracer, reached, entered = _C.Tracer(), nodes[start], []
    grad_mode = torch.is_grad_enabled()
    stand_ins = substitute(tracer, module.forward, (real,), {}).args[0]
    env = dict(zip(outside, stand_ins, strict=True))
    try:
        with _numbers.collected(), _tracing.listening(tracer):
            try:
                for position, node in enumerate(nodes):
                    is_context = node.target in CONTEXTS and node.op == "call_function"
                    if is_context:
                        _enter(node, env, entered)
                    elif position >= start:
                        reached = node
                        _run(module, node, env, tried)
            finally:
                torch._C._set_grad_enabled(grad_mode)
                for mode in reversed(entered):
                    _EXITS(mode)
    except Exception as error:  # whatever the operator raises, eager can say it better
        refused[reached] = _first_line(error)
        return nodes.index(reached) + 1
    return len(nodes)


def _is_call(node):
    return node.op in ("call_function", "call_method", "call_module")


def _enter(node, env, entered):
    if node.target is _EXITS:
        entered.remove(env[node.args[0]])
    result = node.target(*map_arg(node.args, env.__getitem__))
    env[node] = result
    if node.target is _ENTERS:
        entered.append(result)


def _run(module, node, env, tried):
    if node.op == "get_attr":
        env[node] = attribute_of(module, node.target)
    if node not in tried:
        return
    for source in node.all_input_nodes:
        if source.op == "get_attr" and source not in env:
            env[source] = attribute_of(module, source.target)
    args, kwargs = map_arg((node.args, dict(node.kwargs)), env.__getitem__)
    if node.op == "call_method":
        env[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
    elif node.op == "call_module":
        env[node] = module.get_submodule(node.target)(*args, **kwargs)
    else:
        env[node] = node.target(*args, **kwargs)
    _check(env[node], node.meta.get("example_value"))


def attribute_of(module, target):
    for name in target.split("."):
        module = getattr(module, name)
    return module


def _check(found, expected):
    """Nobody else compares what a backend computes with what Dynamo has guarded on."""
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=False)
    for a, b in pairs:
        if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
            continue
        shape = [_hint(size) for size in b.shape]
        known = None not in map(_symbol_hint, b.shape)
        if a.dtype != b.dtype or (known and list(a.shape) != shape):
            raise RuntimeError(
                f"its result is {a.dtype} {list(a.shape)} here, and {b.dtype} {shape} in Dynamo"
            )


def _concrete(value):
    return _hint(value) if isinstance(value, (torch.SymInt, torch.SymFloat)) else value


def _symbol_hint(size):
    return size if isinstance(size, (int, float)) else size.node.hint


def _hint(size):
    hint = _symbol_hint(size)
    return _UNBACKED if hint is None else hint


def _made_up(example):
    """Values of the types of Dynamo's: a capture looks at no data."""

    def make(value):
        if not isinstance(value, torch.Tensor):
            return _concrete(value)
        sizes = [_hint(size) for size in value.shape]
        strides = [_hint(step) for step in value.stride()]
        made = torch.empty_strided(sizes, strides, dtype=value.dtype, device=value.device)
        return made.requires_grad_(value.requires_grad)

    return pytree.tree_map(make, example)


def _first_line(error):
    return str(error).split("\n")[0] or type(error).__name__
